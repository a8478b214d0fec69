"""Recordings that need the tasks of earlier requests: sent one after another to one sandbox."""

from __future__ import annotations

import itertools
import json
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pvebox.cluster.recorded import load_into_memory
from pvebox.cluster.tasks import Task
from pvebox.runtime.contract import Archive, ContainerSpec, Unpacked
from pvebox.runtime.memory import MemoryRuntime
from sandbox.conformance.recordings import load, masked
from sandbox.conformance.replay import Replay

Json = Any
FIRST, LAST = "r245", "r345"
# Tasks that later answers list, but whose requests were not recorded.
UNRECORDED = {"r310": (("vzstop", "302"),)}


class Chain:
    """Recorded requests in order. UPIDs in later requests are replaced by those of the sandbox's own tasks."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recordings = load()
        self.cases, self.states = recordings.cases, recordings.states
        begin = next(number for number, case in enumerate(self.cases) if case["id"] == FIRST)
        end = next(number for number, case in enumerate(self.cases) if case["id"] == LAST)
        self.cases = self.cases[begin : end + 1]
        self.replay = Replay.of(directory, recordings.fixture(self.cases[0]), self.states[self.cases[0]["before"]])
        self.upids: dict[str, str] = {}
        self.unpacking, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        containers = self.replay.cluster.runtime.containers
        populate = containers.populate

        def held(spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
            self.unpacking.set()
            while not self.go_on.wait(0.01):
                task.check_aborted()
            return populate(spec, archive, task)

        monkeypatch.setattr(containers, "populate", held)

    def run(self) -> dict[str, list[str]]:
        """Send all requests and return the differences of each history case by its id."""
        found: dict[str, list[str]] = {}
        for case, following in itertools.pairwise([*self.cases, None]):
            assert case is not None
            self._put(case["before"])
            for type_, vmid in UNRECORDED.get(case["id"], ()):
                self.replay.cluster.tasks.start("pve", type_, vmid, "ops@pve!auto", lambda task: None)
                self.replay.settle()
            if self._is_creating(following):
                self.go_on.clear()
            answer = self.replay.ask(self._renamed(case["request"]))
            if self._is_creating(following):
                assert self.unpacking.wait(5)
            self._remember(case, answer[2])
            if case.get("history"):
                found[case["id"]] = self._differences(case, answer)
            if not self._is_creating(following):
                # An aborted task ends by itself; let any other task go on now.
                if case["request"]["method"] != "DELETE":
                    self.go_on.set()
                self.replay.settle()
                self.go_on.set()
        return found

    def _is_creating(self, case: dict[str, Json] | None) -> bool:
        """Return whether a create task is running in the state before a case."""
        if case is None:
            return False
        return any("lock: create" in text for text in self.states[case["before"]]["config"].values())

    def _put(self, state: str) -> None:
        """Load a recorded state into the cluster, except while a task changes the cluster."""
        cluster = self.replay.cluster
        if cluster.tasks.running():
            return
        for vmid in cluster.configs.vmids():
            cluster.configs.remove(vmid)
        runtime = cluster.runtime
        assert isinstance(runtime, MemoryRuntime)
        for vmid in runtime.containers.running_vmids():
            runtime.containers.stop(vmid)
        for volume in runtime.volumes.everything():
            runtime.volumes.remove(volume.ref)
        load_into_memory(cluster, runtime, self.states[state])

    def _renamed(self, request: dict[str, Json]) -> dict[str, Json]:
        path = request["path"]
        for recorded, ours in self.upids.items():
            path = path.replace(quote(recorded, safe=""), quote(ours, safe="")).replace(recorded, ours)
        return {**request, "path": path}

    def _remember(self, case: dict[str, Json], body: Json) -> None:
        recorded = case["response"]["body"]
        if isinstance(recorded, dict) and str(recorded.get("data")).startswith("UPID:"):
            self.upids[recorded["data"]] = body["data"]

    def _differences(self, case: dict[str, Json], answer: tuple[int, str, Json]) -> list[str]:
        status, reason, body = answer
        recorded = case["response"]
        found = []
        if (status, reason) != (recorded["status"], recorded["reason"]):
            found.append(f"{status} {reason}")
        ours, theirs = _comparable(body), _comparable(recorded["body"])
        if ours != theirs:
            found.append(f"{ours} instead of {theirs}")
        return found


def _comparable(body: Json) -> Json:
    """Mask the values of task lists and logs that always differ."""
    shown = masked(body)
    if isinstance(shown, dict) and isinstance(shown.get("data"), list):
        return {
            **shown,
            "data": sorted(map(_line, shown["data"]), key=lambda entry: json.dumps(entry, sort_keys=True)),
        }
    return shown


def _line(entry: Json) -> Json:
    if not isinstance(entry, dict) or "t" not in entry:
        return entry
    text = re.sub(r"UUID: \S+", "UUID", str(entry["t"]))
    text = re.sub(r"SHA256:\S+", "SHA256", text)
    text = re.sub(r"Total bytes read: .*", "Total bytes read", text)
    return {**entry, "t": text}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        chain = Chain(tmp_path_factory.mktemp("history") / "state", monkeypatch)
        return chain.run()


HISTORY = [case["id"] for case in load().cases if case.get("history") and FIRST <= case["id"] <= LAST]


@pytest.mark.parametrize("case_id", HISTORY)
def test_the_answer_after_earlier_requests_equals_the_recorded_one(case_id: str, found: dict[str, list[str]]) -> None:
    assert found[case_id] == []
