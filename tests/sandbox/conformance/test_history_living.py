"""Recordings of task lists and logs of a container's later life. They need the tasks of earlier requests.

The earlier tasks are entered with their recorded types, users and exit statuses. test_recordings.py shows that the
requests lead to them.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task
from sandbox.conformance.recordings import load, masked
from sandbox.conformance.replay import Replay, answer_differences

Json = Any
TOKEN = "liv@pve!tk"
# Tasks of requests that are not in the recordings, by the case that follows them.
UNRECORDED = {
    "L004": [("vzcreate", "505", "OK")],
    "L043": [("vzrollback", "505", "OK")],
    "L188": [
        (
            "vzclone",
            "500",
            "clone failed: command 'mount -o ro /dev/loop0 /var/lib/lxc/553/.copy-volume-2//' failed: exit code 32",
        )
    ],
    "L206": [("vzstart", "505", "no such logical volume pve/vm-500-disk-2")],
}
MOVED = "move volume CT 505: move --volume mp0 --storage livdir"
LISTS = ("L043", "L208", "L209", "L210", "L211", "L212", "L214")
NOT_REPLAYED = {"L215": "lists containers that other people had on the recording machine; no recorded state has them"}


class History:
    """A memory sandbox in which the recorded tasks happen one after another."""

    def __init__(self, directory: Path) -> None:
        self.recordings = load()
        self.cases = {case["id"]: case for case in self.recordings.cases}
        self.replay = Replay.of(directory, self.recordings.fixture(self.cases["L208"]), self._state("L208"))
        self._release = threading.Event()

    def _state(self, case_id: str) -> Json:
        return self.recordings.states[self.cases[case_id]["before"]]

    def answers(self) -> dict[str, Json]:
        """Return the answers to the lists, by their ids."""
        found = {}
        for case_id, case in self.cases.items():
            if not case_id.startswith("L") or case_id > "L214" or case.get("world"):
                continue
            for type_, id_, status in UNRECORDED.get(case_id, ()):
                self._happen(type_, id_, TOKEN, status)
            if case_id == "L043":
                self._begin("vzstart", "505")
            if case_id == "L208":
                self._happen("move_volume", "505", TOKEN, "OK", MOVED)
            if case_id in LISTS:
                found[case_id] = self.replay.ask(self._since_the_beginning(case["request"]))
            elif case.get("task"):
                user = case["response"]["body"]["data"].split(":")[7]
                self._happen(case["task"]["type"], case["task"]["id"], user, case["task"]["exitstatus"])
            self._release.set()
            self.replay.settle()
        return found

    def _happen(self, type_: str, id_: str, user: str, status: str, note: str | None = None) -> None:
        cluster = self.replay.cluster

        def work(task: Task) -> None:
            if note is not None:
                cluster.tasks.note(task, note)
            if status.startswith("WARNINGS"):
                task.warn("recorded")
            elif status != "OK":
                raise OperationError(f"{status}\n")

        cluster.tasks.wait(cluster.tasks.start("pve", type_, id_, user, work))

    def _begin(self, type_: str, id_: str) -> None:
        """Start a task that runs until the next request is answered."""
        self._release.clear()
        self.replay.cluster.tasks.start("pve", type_, id_, TOKEN, lambda task: self._wait())

    def _wait(self) -> None:
        self._release.wait(10)

    def _since_the_beginning(self, request: Json) -> Json:
        """Replace the recorded time: here all tasks have just happened."""
        params = request["params"]
        return {**request, "params": {**params, "since": 1} if "since" in params else params}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    return History(tmp_path_factory.mktemp("history") / "state").answers()


def _comparable(body: Json) -> Json:
    """Drop the numbers of entries and tasks, which count requests that were not recorded."""
    entries = []
    for entry in masked(body)["data"]:
        kept = {key: value for key, value in entry.items() if key not in ("id", "uid", "time") or "msg" not in entry}
        entries.append({**kept, "msg": re.sub(r"UPID:pve:(\w+:){3}", "UPID:", kept["msg"])} if "msg" in kept else kept)
    return entries


@pytest.mark.parametrize("case_id", LISTS)
def test_the_list_equals_the_recorded_one(case_id: str, answers: dict[str, Json]) -> None:
    status, reason, body = answers[case_id]
    recorded = load_case(case_id)["response"]
    assert (status, reason) == (recorded["status"], recorded["reason"])
    assert _comparable(body) == _comparable(recorded["body"])


def load_case(case_id: str) -> Json:
    return next(case for case in load().cases if case["id"] == case_id)


def _replay(case_id: str, directory: Path) -> tuple[Json, Replay]:
    case, recordings = load_case(case_id), load()
    return case, Replay.of(directory, recordings.fixture(case), recordings.states[case["before"]])


def test_a_running_backup_is_aborted_as_recorded(tmp_path: Path) -> None:
    case, replay = _replay("L216", tmp_path / "state")

    def work(task: Task) -> None:
        task.aborted.wait(10)
        task.check_aborted()

    upid = replay.cluster.tasks.start("pve", "vzdump", "500", TOKEN, work)
    path = f"/api2/json/nodes/pve/tasks/{quote(upid, safe='')}"
    assert answer_differences(case, *replay.ask({**case["request"], "path": path})) == []
    assert replay.cluster.tasks.wait(upid).exitstatus == "received interrupt"


@pytest.mark.parametrize("case_id", ["L217", "L218", "L220"])
def test_the_answer_around_a_backup_equals_the_recorded_one(case_id: str, tmp_path: Path) -> None:
    case, replay = _replay(case_id, tmp_path / "state")
    status, reason, body = replay.ask(case["request"])
    assert answer_differences(case, status, reason, body) == []
    if case.get("task"):
        assert replay.cluster.tasks.wait(body["data"]).exitstatus == case["task"]["exitstatus"]


def test_every_recording_that_needs_history_is_replayed_or_has_a_reason() -> None:
    living = {c["id"] for c in load().cases if c.get("history") and c["id"].startswith("L") and not c.get("world")}
    assert living == {*LISTS, *NOT_REPLAYED, "L216", "L217", "L218", "L220"}
