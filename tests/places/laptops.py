"""Two laptops that work on one simulated node at the same time, request by request, in an order made from a seed.

Each laptop has a home, a token, an ssh key and a wrong clock of its own. One laptop runs at a time: before each request
and each wait the seed chooses who goes on. New containers stay invisible until their tasks end, as in pools.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import httpx
import pytest

from paddock.base import clock
from paddock.base.errors import PaddockError
from paddock.core import lock
from paddock.kinds import load
from paddock.places.proxmox.access import visibility
from paddock.places.proxmox.node import holder, reading
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer
from paddock.places.proxmox.place import ProxmoxPlace
from places.node import BASE, DEPLOYER, Killed, Node, PaperAgent, Told
from pvebox.access.accounts import Token

_NOON: Final = datetime(2030, 6, 1, 12, tzinfo=UTC)  # on the node, when a race begins
_LONGEST_HOLD: Final = 60  # turns that the creation of a container takes at most
_ONE: Final = re.compile(r"/nodes/pve/lxc/(\d+)/")

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Laptop:
    """A computer with Paddock, and the runs that it made."""

    name: str
    folder: Path
    token: str
    skew: timedelta
    runs: list[str] = field(default_factory=list)  # their names in claims
    ends: list[tuple[str, PaddockError | None]] = field(default_factory=list)  # of the runs that were not killed
    dies_after: int = 0  # writing requests until the run is killed
    dead: bool = False


class Race(httpx.BaseTransport):
    """The order in which two laptops use one node."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.laptops: list[Laptop] = []
        self.requests: list[str] = []  # who asked what, for a failed test
        self.cloned: dict[int, int] = {}  # the template of each clone
        self._random = random.Random(seed)
        self._passing = threading.Condition()
        self._alive: list[str] = []
        self._current = ""
        self._turns = 0
        self._seconds = 0.0
        self._me = threading.local()
        self._held: dict[str, tuple[int, threading.Event]] = {}  # tasks under way, and when they may end
        self._creating: dict[str, int] = {}  # their containers
        self.node.clock = self.now

    # Time

    def now(self) -> datetime:
        return _NOON + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    def pass_time(self, passed: timedelta) -> None:
        """Let time pass without requests; all tasks end."""
        self._seconds += passed.total_seconds()
        self._turns += _LONGEST_HOLD
        self._end_tasks()

    def sleep(self, seconds: float) -> None:
        alone = len(self._alive) == 1 and not self._held
        # Then only time changes the node: a claim expires.
        self._seconds += seconds * 40 if alone else seconds
        self._turn()

    def time(self) -> float:
        """The clock of the laptop that asks."""
        return (self.now() + self.me.skew).timestamp()

    # Turns

    @property
    def me(self) -> Laptop:
        laptop: Laptop = self._me.laptop
        return laptop

    def run(self, works: dict[str, Callable[[], None]]) -> None:
        """Let laptops work at the same time; raise what one of them did not expect."""
        failures: list[BaseException] = []
        self._alive = sorted(works)
        self._current = ""

        def work(laptop: Laptop) -> None:
            self._me.laptop = laptop
            try:
                self._await(laptop.name)
                works[laptop.name]()
            except BaseException as error:  # noqa: BLE001 - raised again after the race
                failures.append(error)
            finally:
                with self._passing:
                    self._alive.remove(laptop.name)
                    self._choose()

        threads = [threading.Thread(target=work, args=(each,)) for each in self.laptops if each.name in works]
        for thread in threads:
            thread.start()
        with self._passing:
            self._choose()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a laptop waits for what does not come"
        if failures:
            raise failures[0]

    def _choose(self) -> None:
        self._current = self._random.choice(self._alive) if self._alive else ""
        self._passing.notify_all()

    def _await(self, name: str) -> None:
        with self._passing:
            assert self._passing.wait_for(lambda: self._current == name, 60), "no turn came"

    def _turn(self) -> None:
        self._turns += 1
        self._end_tasks()
        with self._passing:
            self._choose()
        self._await(self.me.name)

    # Tasks: all but creations end at once

    def hold(self, vmid: int) -> None:
        """Keep the creation of a container under way for some turns."""
        go, upid = threading.Event(), threading.current_thread().name
        self._creating[upid] = vmid
        self._held[upid] = (self._turns + self._random.randint(0, _LONGEST_HOLD), go)
        assert go.wait(60), "the task was never released"

    def _end_tasks(self) -> None:
        for upid, (due, go) in list(self._held.items()):
            if due <= self._turns:
                go.set()
                self.node.world.tasks.wait(upid)
                del self._held[upid], self._creating[upid]
        end = time.monotonic() + 30
        while any(str(task.upid) not in self._held for task in self.node.world.tasks.running()):
            assert time.monotonic() < end, "a task does not end"
            time.sleep(0.0005)

    # The wire

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.me.dead:
            raise Killed
        self._turn()
        path = request.url.path.removeprefix("/api2/json")
        self._seconds += 0.05
        self.requests.append(f"{self.me.name} {request.method} {path} {request.read().decode()[:300]}")
        hidden = set(self._creating.values())
        one = _ONE.match(path + "/")
        if one and int(one[1]) in hidden:
            return self._answer(403, {"data": None, "message": f"Permission check failed (/vms/{one[1]}, VM.Audit)"})
        response = self.node.handle_request(request)
        if path.endswith("/clone") and response.status_code == 200:
            self.cloned[int(dict(parse_qsl(request.read().decode()))["newid"])] = int(path.split("/")[-2])
        self._end_tasks()
        self.check()
        if request.method != "GET" and self.me.dies_after:
            self.me.dies_after -= 1
            if self.me.dies_after == 0:
                self.me.dead = True
                raise Killed
        if path in ("/nodes/pve/lxc", "/cluster/resources") and request.method == "GET":
            rows = response.json()["data"]
            data = [row for row in rows if int(row.get("vmid", 0)) not in hidden]
            if path == "/cluster/resources":
                # Only that the number is taken can be found out, as for a virtual machine.
                data += [{"type": "qemu", "node": "pve", "vmid": vmid} for vmid in hidden]
            return self._answer(200, {"data": data})
        return response

    def _answer(self, status: int, body: dict[str, Any]) -> httpx.Response:
        date = {"Date": f"{self.now():%a, %d %b %Y %H:%M:%S} GMT"}
        return httpx.Response(status, headers=date, content=json.dumps(body).encode())

    # What must hold at every moment

    def containers(self, role: Role) -> list[LxcContainer]:
        found = [LxcContainer(vmid, "unknown", self.node.config(vmid)) for vmid in self.node.vmids]
        return [container for container in found if container.has(role)]

    def check(self) -> None:
        for role in (Role.PET, Role.CATTLE):
            settled = [each.vmid for each in self.containers(role) if not each.unsettled]
            assert len(settled) <= 1, f"two of {role}: {settled}\n{self}"
        users: dict[str, list[int]] = {}
        for vmid in self.node.running:
            for mount in LxcContainer(vmid, "running", self.node.config(vmid)).mounts:
                users.setdefault(mount.volume, []).append(vmid)
        assert all(len(numbers) == 1 for numbers in users.values()), f"two writers: {users}\n{self}"

    def __str__(self) -> str:
        return "\n".join(line for line in self.requests if " GET " not in line)

    # The laptops

    def add_laptop(self, folder: Path, name: str, skew: timedelta) -> Laptop:
        """A laptop with a token and an ssh key of its own, and a clock that is wrong."""
        folder.mkdir()
        access = self.node.world.access
        token = f"pooled@pve!{name}"
        access.tokens[token] = Token(**{**vars(access.tokens[DEPLOYER]), "secret": f"secret-of-{name}"})
        access.acl += [replace(entry, ugid=token) for entry in access.acl if entry.ugid == DEPLOYER]
        (folder / "id").touch()
        (folder / "id.pub").write_text(f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK{name} paddock\n")
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(f"{token}=secret-of-{name}")
        self.laptops.append(Laptop(name, folder, token, skew))
        return self.laptops[-1]

    @contextmanager
    def agent(self, template: str) -> Iterator[PaperAgent]:
        """The agent as a new run on the current laptop finds it."""
        laptop = self.me
        proxmox = {
            "url": "https://node:8006",
            "node": "pve",
            "token": {"file": "token"},
            "storage": "local-lvm",
            "base": BASE,
            "template": template,
            "ssh": {"key": "id"},
        }
        agents = {"bee": {"kind": "service", "command": ["/bin/true"], "place": "home"}}
        file = laptop.folder / "paddock.yaml"
        file.write_text(json.dumps({"project": "home", "places": {"home": {"proxmox": proxmox}}, "agents": agents}))
        loaded = load(file)
        spec = loaded.spec.places["home"].proxmox
        assert spec is not None
        told = Told()
        place = ProxmoxPlace(spec, laptop.folder, told.say)
        place._client._http._transport = self
        laptop.runs.append(place._holder.name)
        try:
            yield PaperAgent.of_file("bee", loaded, place, told, self.node.side)
        finally:
            place.close()

    def attempt(self, verb: Callable[[PaperAgent], str], template: str) -> None:
        """Run a verb on the current laptop, and keep the error that it ends with."""
        self.me.dead = False
        with suppress(Killed), self.agent(template) as agent:
            try:
                verb(agent)
                self.me.ends.append((verb.__name__, None))
            except PaddockError as error:
                self.me.ends.append((verb.__name__, error))


class OneAfterAnother:
    """An executor without threads, so that the requests of a laptop have one order."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> OneAfterAnother:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[T], R], things: Iterable[T]) -> list[R]:
        return [work(each) for each in things]

    def submit(self, work: Callable[..., R], *arguments: Any) -> SimpleNamespace:
        done = work(*arguments)
        return SimpleNamespace(result=lambda: done)


def make_race(node: Node, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Race:
    """A race of two laptops on a node, whose clocks are hours off in both directions."""
    race = Race(node, seed)
    race.add_laptop(tmp_path / "one", "one", timedelta(hours=-7))
    race.add_laptop(tmp_path / "two", "two", timedelta(hours=5))
    monkeypatch.setattr(clock, "current", race)
    for module in (reading, visibility):
        monkeypatch.setattr(module, "ThreadPoolExecutor", OneAfterAnother)
    for module in (holder, lock):
        monkeypatch.setattr(module, "state_folder", lambda: race.me.folder / "state")
    monkeypatch.setattr(holder, "socket", SimpleNamespace(gethostname=lambda: "laptop"))
    _hold_creations(race, monkeypatch)
    return race


def _hold_creations(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = race.node.machines
    settle = machines.settle_clone
    machines.obstacle = lambda task: race.hold(int(task.upid.id))

    def settle_clone(spec: Any) -> Any:
        race.hold(spec.vmid)
        machines.cloned = race.cloned[spec.vmid]
        return settle(spec)

    monkeypatch.setattr(machines, "settle_clone", settle_clone)
