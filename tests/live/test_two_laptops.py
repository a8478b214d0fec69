"""Two laptops work on one agent at the same time: two homes, two tokens, two ssh keys, and one clock that is wrong."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from faults.writers import intruders
from levels import slow_proof
from live.manual import api_client
from live.node import Node
from live.node_root import root
from paddock.base.errors import PaddockError
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer

pytestmark = pytest.mark.live

# Writes its own name into the state, again and again.
WRITER = "name=$(cat /proc/sys/kernel/random/uuid); while :; do echo $name >>~/writers; sleep 0.05; done"
AGENT: dict[str, Any] = {
    "kind": "service",
    "place": "box",
    "command": ["/bin/sh", "-c", WRITER],
    "state": {"size": "1G"},
    "machine": {"cores": 1, "memory": "512M", "disk": "4G"},
}
TOLD = re.compile(
    r"\S+/[0-9a-f]{8} (is at work on|created (pet|machine) \d+ for)"
    r"|another run has removed the machine"  # and its claim with it
    r"|Permission denied"  # the winner has not authorised this laptop's key yet
)


def own_cache(folder: Path) -> Path:
    """Make a cache that shares what is large with that of this account.

    The rest is removed by its age, and the clock of a laptop is hours ahead.
    """
    account = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for name in ("uv", "paddock/code", "paddock/archives"):
        (account / name).mkdir(parents=True, exist_ok=True)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(account / name)
    return folder


class Laptop:
    """A folder with a file, a key and a token, and a home."""

    def __init__(self, node: Node, folder: Path, name: str, clock: str) -> None:
        self.folder = folder
        self.name = name
        self._clock = clock
        folder.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
        user = node.stage.environment["PVE_TOKEN"].partition("!")[0]
        words = ("--privsep", "0", "--output-format", "json")
        made = json.loads(root(node, "pveum", "user", "token", "add", user, name, *words).stdout)
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
        token = f"{made['full-tokenid']}={made['value']}"
        cache = {"XDG_CACHE_HOME": str(own_cache(folder / "cache"))}
        self.environment = {**node.stage.environment, **home, **cache, "PVE_TOKEN": token}

    @property
    def key(self) -> str:
        return (self.folder / "id.pub").read_text().strip()

    def start(self, *words: str) -> subprocess.Popen[str]:
        # The clock of a laptop counts the same seconds, from another time.
        skewed = ["faketime", "-f", self._clock] if self._clock and shutil.which("faketime") else []
        return subprocess.Popen(
            [*skewed, sys.executable, "-m", "paddock", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def paddock(self, *words: str) -> str:
        running = self.start(*words)
        said, _ = running.communicate(timeout=300)
        assert running.returncode == 0, said
        return said


class Watch(threading.Thread):
    """Looks for two running containers with one volume until it is stopped."""

    def __init__(self, api: Client) -> None:
        super().__init__()
        self._api = api
        self._end = threading.Event()
        self.looks = 0
        self.seen: list[str] = []

    def run(self) -> None:
        while not self._end.wait(0.1):
            users: dict[str, list[int]] = {}
            for vmid in self.running():
                try:
                    config = self._api.get(f"/nodes/{self._api.node}/lxc/{vmid}/config")
                except PaddockError:
                    continue  # destroyed since the list was made
                for mount in LxcContainer(vmid, "running", config).mounts:
                    users.setdefault(mount.volume, []).append(vmid)
            self.seen += [f"{volume}: {vmids}" for volume, vmids in users.items() if len(vmids) > 1]
            self.looks += 1

    def running(self) -> list[int]:
        listed = self._api.get(f"/nodes/{self._api.node}/lxc")
        return [int(row["vmid"]) for row in listed if row["status"] == "running"]

    def stop(self) -> None:
        self._end.set()
        self.join()


class Race:
    """Two laptops with files for the same agent."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.api = api_client(node)
        self.agent = f"race{os.getpid()}"
        self.laptops = [
            Laptop(node, folder / "one", f"one{os.getpid()}", ""),
            Laptop(node, folder / "two", f"two{os.getpid()}", "+7h"),
        ]
        box = node.file()["places"]["box"]["proxmox"]
        people = [laptop.key for laptop in self.laptops]
        box |= {"template": "none", "ssh": {"key": "id", "people": people}}
        tree = {"project": "home", "places": {"box": {"proxmox": box}}, "agents": {self.agent: AGENT}}
        for laptop in self.laptops:
            YAML(typ="safe").dump(tree, laptop.folder / "paddock.yaml")

    def containers(self, role: Role) -> list[LxcContainer]:
        """The pets or machines of the agent."""
        path = f"/nodes/{self.api.node}/lxc"
        rows = self.api.get(path)
        configs = [self.api.get(f"{path}/{row['vmid']}/config") for row in rows]
        found = [
            LxcContainer(int(row["vmid"]), row["status"], config) for row, config in zip(rows, configs, strict=True)
        ]
        return [each for each in found if each.has(role) and self.agent in str(each.config["hostname"])]

    def journal(self) -> list[str]:
        """Return the names that the agents have written into the state, in their order."""
        return self.laptops[0].paddock("exec", self.agent, "--", "sh", "-c", "cat ~/writers").split()

    def round(self, *verbs: str) -> list[str]:
        """Run a verb on each laptop at once; return what the losers were told."""
        watch = Watch(self.api)
        watch.start()
        try:
            runs = [laptop.start(verb) for laptop, verb in zip(self.laptops, verbs, strict=True)]
            ends = [(run.communicate(timeout=300)[0], run.returncode) for run in runs]
        finally:
            watch.stop()
        assert watch.looks
        assert watch.seen == []
        lost = [said for said, code in ends if code]
        assert len(lost) < 2, lost
        assert all(TOLD.search(said) for said in lost), "\n\n".join(said for said, _ in ends)
        assert len(self.containers(Role.PET)) <= 1
        assert len(self.containers(Role.CATTLE)) <= 1
        return lost


@pytest.fixture
def race(node: Node, tmp_path: Path) -> Iterator[Race]:
    found = Race(node, tmp_path)
    try:
        yield found
    finally:
        one = found.laptops[0]
        one.paddock("down")
        forget = [sys.executable, "-m", "paddock", "forget", found.agent, "--name", found.agent]
        subprocess.run(forget, cwd=one.folder, env=one.environment, check=True, timeout=120)
        for laptop in found.laptops:
            root(
                node, "pveum", "user", "token", "remove", laptop.environment["PVE_TOKEN"].partition("!")[0], laptop.name
            )


def test_two_laptops_that_bring_an_agent_up_at_once_have_one_pet_and_one_machine(race: Race) -> None:
    race.round("up", "up")
    race.laptops[0].paddock("up")
    [pet], [machine] = race.containers(Role.PET), race.containers(Role.CATTLE)
    assert machine.running
    assert machine.mount("mp0").volume == pet.mount("mp0").volume  # type: ignore[union-attr]
    assert race.journal()
    assert intruders(race.journal()) == []


@slow_proof
def test_two_laptops_race_five_times(race: Race) -> None:
    chosen = random.Random(13)
    for verbs in [("up", "up"), *(tuple(chosen.choices(["up", "down", "cycle"], k=2)) for _ in range(4))]:
        race.round(*verbs)
    race.laptops[1].paddock("up")
    assert len(race.containers(Role.PET)) == len(race.containers(Role.CATTLE)) == 1
    assert intruders(race.journal()) == []


@slow_proof
def test_two_runs_on_one_laptop_have_one_writer(race: Race, tmp_path: Path) -> None:
    """Two runs of one checkout, then of two checkouts; the second run names the first."""
    one = race.laptops[0]
    two = copy.copy(one)
    two.folder = tmp_path / "checkout"
    shutil.copytree(one.folder, two.folder)
    for runners, verbs in [((one, one), ("up", "up")), ((one, one), ("up", "cycle")), ((one, two), ("up", "down"))]:
        runs = [runner.start(verb) for runner, verb in zip(runners, verbs, strict=True)]
        ends = [(run.communicate(timeout=300)[0], run.returncode) for run in runs]
        lost = [said for said, code in ends if code]
        assert len(lost) < 2, lost
        assert all("another run is working on it (process " in said for said in lost), lost
    one.paddock("up")
    assert len(race.containers(Role.PET)) == len(race.containers(Role.CATTLE)) == 1
    assert intruders(race.journal()) == []


@slow_proof
def test_a_second_writer_is_found_in_the_journal(race: Race) -> None:
    race.laptops[0].paddock("up")
    intrude = "for each in 1 2 3 4 5; do echo intruder >>~/writers; sleep 0.2; done"
    race.laptops[0].paddock("exec", race.agent, "--", "sh", "-c", intrude)
    assert "intruder" in intruders(race.journal())
