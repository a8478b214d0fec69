"""A simulated Proxmox node in the test's process: the sandbox's API, a simulated ssh, and a record of all requests.

Verbs, place and client are the real ones. Nothing runs inside machines.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import shlex
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import httpx
import pytest

import wire
from asked import Played, answer, asked, is_asked, saying
from clocks import SimulatedClock
from paddock.base import clock
from paddock.base.process import Pipes, Result, piped
from paddock.base.secret import Secret
from paddock.core.converge import plan_up, resolve_or_refuse, want_of
from paddock.core.deployment import Deployment, MachineSide
from paddock.core.observe import Observation, observe
from paddock.core.perform import carry_out
from paddock.core.resolve import locate, resolve
from paddock.file import load as loading
from paddock.file.agent_id import AgentId
from paddock.file.load import Loaded
from paddock.file.referenced import inlined
from paddock.file.tree import Tree, read
from paddock.kinds import KINDS
from paddock.places.contract import AnyPlace, Finding, MachineWant
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.machine import reach as reach_module
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.place import ProxmoxPlace
from paddock.plan.agent import AgentSeen
from paddock.plan.step import Plan
from paddock.show.reporter import Reporter
from paper import PaperSide
from pvebox.api.errors import NodeCrashError
from pvebox.cluster.assembly import memory_cluster
from pvebox.cluster.faults import Faults, Rule, install
from pvebox.cluster.tasks import Task, Tasks
from pvebox.console.console import Console
from pvebox.console.shell import CommandResult
from pvebox.guests.config import CtConfig
from pvebox.guests.network import parse_network
from pvebox.runtime.contract import Archive, ContainerSpec, Interface, Say, Unpacked
from pvebox.runtime.memory import MemoryContainers, MemoryRuntime
from pvebox.server.http import ABORT, HttpApi

BASE: Final = "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst"
DEPLOYER: Final = "pooled@pve!setup"  # its privileges are on the two pools only
DAILY: Final = "pooled@pve!daily"
MACHINES, STATES = "paddock", "paddock-state"  # the two pools
WIDE: Final = "paddock@pve!deploy"  # has privileges on all containers
ROOT: Final = "root@pam!sandbox"
PET, CATTLE = 100, 101  # the numbers a new agent gets on an empty node
NO_TRUST: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing goes over TLS here, and reading CAs takes 0.1 s
SPEED: Final = 100  # a pause of Paddock is this much shorter


@dataclass(frozen=True)
class Sent:
    """A request as it left the client."""

    method: str
    path: str
    params: dict[str, str]
    body: bytes = b""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Hook:
    """A function to call before a certain request."""

    method: str
    path: str
    happening: Callable[[], object]
    left: int


class Killed(BaseException):
    """Ends a run like a kill, without any cleanup."""


def host_key(name: str) -> str:
    """Return a valid base64 part of an ssh host key."""
    return f"AAAAC3NzaC1lZDI1NTE5AAAAI{name:A<43}"


def address_of(vmid: int) -> str:
    return f"10.0.0.{vmid}"


class Machines(MemoryContainers):
    """Simulated containers with addresses and ssh host keys."""

    def __init__(self, runtime: MemoryRuntime) -> None:
        super().__init__(runtime.volumes, runtime._call_stop_hooks, runtime._running)
        self.host_keys: dict[int, str] = {}
        self.inside: dict[str, AgentSeen] = {}  # of each machine, by its address
        self.home = Path()  # the state that machines send
        self.held: list[str] = []  # machines whose lease is held
        self.lost = False  # whether the connections to machines broke
        self.cloned = 0  # the source of the last clone: a clone keeps its ssh host keys
        self.strays: dict[int, list[str]] = {}  # what is on root disks that may be an agent's
        self.unanswered = 0  # how often DHCP has not got round to it yet
        self.vmids: dict[str, int] = {}  # of the machines, by the addresses they have shown
        self.given: dict[int, str] = {}  # addresses that are not those of the configuration
        self.cards: dict[int, str] = {}  # of each running machine, as they were when it started
        self.crashes = False  # whether the node goes down in the next clone
        self.obstacle: Callable[[Task], None] = lambda task: None  # in the way of everyone who unpacks an archive

    def populate(self, spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        self.obstacle(task)
        self.inside.pop(address_of(spec.vmid), None)
        self.host_keys[spec.vmid] = host_key(f"fresh{spec.vmid}x{len(self.host_keys)}")
        return super().populate(spec, archive, task)

    def prepare(self, spec: ContainerSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        say("Creating SSH host key 'ssh_host_ed25519_key' - this may take some time ...")
        say(f"done: {reach_module.fingerprint(self.host_keys[spec.vmid])} root@localhost")

    def settle_clone(self, spec: ContainerSpec) -> Unpacked:
        self.inside.pop(address_of(spec.vmid), None)
        self.host_keys[spec.vmid] = self.host_keys[self.cloned]
        if self.crashes:
            self.crashes = False
            raise NodeCrashError
        return super().settle_clone(spec)

    def start(self, spec: ContainerSpec) -> None:
        super().start(spec)
        self.cards.pop(spec.vmid, None)

    def vmid_at(self, address: str) -> int:
        return self.vmids.get(address) or int(address.rpartition(".")[2])

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """Return loopback and the cards. One that was replaced while the machine ran has no address."""
        loopback, *cards = super().interfaces(vmid, config)
        addresses: tuple[tuple[str, str, int], ...] = (("inet6", "fe80::be24:11ff:fe00:1", 64),)
        now = str(config.options.get("net0"))
        fixed = parse_network(now).get("ip", "") if "net0" in config.options else ""
        fixed = fixed.partition("/")[0] if "/" in fixed else ""
        if self.unanswered:
            self.unanswered -= 1
        elif _card(self.cards.setdefault(vmid, now)) == _card(now):
            address = self.given.get(vmid) or fixed or address_of(vmid)
            self.vmids[address] = vmid
            addresses = (*addresses, ("inet", address, 24))
        return [loopback, *(Interface(card.name, card.mac, addresses) for card in cards)]


def _card(options: str) -> list[str]:
    """Return what a card is made of. Its firewall can be switched while it is in use."""
    return [each for each in options.split(",") if not each.startswith("firewall=")]


class PlayedSsh:
    """Answers for a simulated machine: about its host key, files of an agent on its root disk, and its version."""

    def __init__(self, machines: Machines, address: str) -> None:
        self.name = address
        self._machines = machines
        self._vmid = machines.vmid_at(address)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        if is_asked(argv):
            values = {"ReportStrays": self._machines.strays.get(self._vmid, []), "ReportVersion": ""}
            return Result(tuple(argv), 0, answer(values[asked(stdin)[0]]), "", 0)
        own = host_key(f"own{self._vmid}")
        if argv[-1] == "switch":
            self._machines.host_keys[self._vmid] = own
        return Result(argv=tuple(argv), code=0, out=f"ssh-ed25519 {own}\n", err="", seconds=0)

    @contextmanager
    def piped(self, argv: Sequence[str]) -> Iterator[Pipes]:
        """Hold the lease of the machine's agent, or send a state, which is in a folder of the test."""
        assert is_asked(argv), argv
        machines = self._machines
        with ExitStack() as running:

            def begin(name: str, given: dict[str, Any]) -> Pipes:
                if name == "HoldLease":
                    machines.held.append(self.name)
                    running.callback(machines.held.remove, self.name)
                    told = BytesIO(saying("held").encode())
                    end = lambda: Result(tuple(argv), 255 if machines.lost else 0, "", "", 0)  # noqa: E731
                    return Pipes(BytesIO(), told, lambda: "", end)
                assert name == "SendState", f"a simulated machine cannot answer {name}"
                given["order"] |= {"home": str(machines.home), "staging": str(machines.home.parent)}
                return running.enter_context(piped([sys.executable, *argv[1:]]))

            yield Played(begin).pipes


class NoConnection:
    """Stands for a connection that commands share. A simulated machine needs none."""

    control = Path("/nonexistent")
    is_open = False

    @classmethod
    def opened(cls, _: PlayedSsh) -> NoConnection:
        return cls()

    def close(self) -> None:
        """Do nothing."""


class NodeClock(SimulatedClock):
    """Ends a wait as soon as a task of the node ends, and fails a test that waits for what does not come.

    Other runs and programs work in real time, so a pause without a task is a short real one.
    """

    def __init__(self, tasks: Tasks) -> None:
        super().__init__()
        self._tasks = tasks
        self.refresh()

    def refresh(self) -> None:
        """Let waits go on for two minutes from now."""
        self._end = time.monotonic() + 120

    def sleep(self, seconds: float) -> None:
        assert time.monotonic() < self._end, "it waits for what does not come"
        if running := self._tasks.running():
            running[0].ended.wait(max(seconds / SPEED, 0.005))
        else:
            time.sleep(seconds / SPEED)
        super().sleep(seconds)


class Told(Reporter):
    """A reporter that keeps its lines, and calls functions when certain words are printed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.listeners: dict[str, Callable[[], object]] = {}

    def print(self, text: str, style: str = "") -> None:
        self.lines.append(text)
        for words in [words for words in self.listeners if words in text]:
            self.listeners.pop(words)()

    def when(self, words: str, act: Callable[[], object]) -> None:
        """Let something happen as soon as these words are told, once."""
        self.listeners[words] = act

    @property
    def commands(self) -> list[str]:
        """What a person was last asked to run."""
        start = max(at for at, line in enumerate(self.lines) if line.startswith(("Proxmox lets root", "what is left")))
        return [line.strip() for line in itertools.takewhile(lambda line: line[0] == " ", self.lines[start + 1 :])]

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True, kw_only=True)
class PaperAgent(Deployment):
    """An agent on a simulated node, and the lines that its run printed."""

    told: Told

    @classmethod
    def of_file(cls, name: str, loaded: Loaded, place: ProxmoxPlace, told: Told, side: MachineSide) -> PaperAgent:
        return cls(
            project=loaded.spec.project,
            name=name,
            spec=inlined(loaded.spec.agents[name], loaded.folder),
            folder=loaded.folder,
            place=cast("AnyPlace", place),
            recipe=loaded.kinds[loaded.spec.agents[name].kind],
            reporter=told.of(name),
            machine_side=side,
            told=told,
            formers=(AgentId("", name),),
        )

    @property
    def node(self) -> ProxmoxPlace:
        return cast("ProxmoxPlace", self.place)

    @property
    def client(self) -> Client:
        return self.node._client

    @property
    def machine_want(self) -> MachineWant:
        return locate(self).machine_want

    def observe(self) -> Observation:
        return observe(locate(self))

    def examine(self) -> tuple[Sequence[Finding], Sequence[str]]:
        """What doctor finds for this agent."""
        return self.node.doctor.examine([self.machine_want])

    def plan_up(self, seen: Observation | None = None) -> Plan:
        """Plan what `up` would do, from an observation or a new one."""
        located = locate(self)
        return plan_up(located, want_of(resolve_or_refuse(located)), seen or observe(located))

    def carry_out(self, plan: Plan, seen: Observation) -> None:
        carry_out(locate(self), plan, seen)

    def seen_as_wanted(self) -> AgentSeen:
        """What the machine would report if everything on it was as the file says."""
        want = resolve(locate(self)).want()
        return AgentSeen(
            packages=want.packages,
            trees=frozenset({want.tree} if want.tree else ()),
            bundle_id=want.bundle_id,
            answered=want.bundle_id,
            secrets=want.secrets,
            state_of=self.name,
            units={f"paddock-{self.name}.main.service": "active"},
        )


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    """Answer without a thread."""
    return work(*arguments)


@cache
def _tree(text: str) -> Tree:
    """Read a file of a test once. Most tests have the same ones, and reading takes longer than the run."""
    return read(text, "paddock.yaml")


def _loaded(file: Path) -> Loaded:
    spec, tree = loading._checked(_tree(file.read_text()), file.parent, KINDS)
    return Loaded(spec, file, tree, KINDS)


class Node(httpx.BaseTransport):
    """The simulated node, the connection to it, and its other users."""

    def __init__(self, folder: Path, nodes: tuple[str, ...] = ("pve",), given: Mapping[str, Any] | None = None) -> None:
        self.world = memory_cluster(folder / "node", given, nodes)
        self.world.configs.lock_timeout = 0.1
        runtime = self.world.runtime
        assert isinstance(runtime, MemoryRuntime)
        running = runtime.containers._running
        self.machines = runtime.containers = Machines(runtime)
        self.machines._running.update(running)
        self.side: MachineSide = PaperSide(self.machines.inside)
        self.faults = Faults()
        self.sent: list[Sent] = []
        self.at_once = 0  # the most requests that were under way at the same time
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # of the node
        self.waits = NodeClock(self.world.tasks)  # of Paddock
        self.refuses_until = 0.0  # on the clock of Paddock: connections are refused, as while pveproxy restarts
        self.kill_after = 0  # after how many writing requests the run is killed
        self._dead = False
        self.rewrite: Callable[[Any], Any] | None = None  # of the answers
        self._under_way = 0
        self._hooks: list[Hook] = []
        self._holders: list[Holder] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._api = HttpApi(self.world, delay_401=0, in_thread=_at_once)
        install(self._api, self.faults)
        self._folder = folder
        (folder / "id").touch()
        (folder / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpublic paddock\n")

    # The wire

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api2/json")
        body = request.read()
        params = dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
        params |= dict(parse_qsl(body.decode(), keep_blank_values=True))
        for happening in self._due(request.method, path):
            happening()
        if self._dead:
            raise Killed
        if clock.monotonic() < self.refuses_until:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request) from ConnectionRefusedError()
        if path.endswith("/clone"):
            self.machines.cloned = int(path.split("/")[-2])
        with self._lock:
            self.sent.append(Sent(request.method, path, params, body))
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        # Proxmox looks whether a number is free and takes it under one lock; the sandbox does these one after another.
        turn: AbstractContextManager[object] = self._writing if request.method != "GET" else nullcontext()
        try:
            with turn:
                answer = self._forward(request, body)
        finally:
            with self._lock:
                self._under_way -= 1
        if request.method != "GET" and len(self.writes) == self.kill_after:
            self.kill_after, self._dead = 0, True
            raise Killed
        return answer

    def _forward(self, request: httpx.Request, body: bytes) -> httpx.Response:
        work = wire.respond(self._api, request, body)
        try:
            slow = self.faults.listing()
            answer = wire.in_time(work, request.extensions["timeout"]["read"]) if slow else wire.at_once(work)
        except TimeoutError:
            raise httpx.ReadTimeout("The read operation timed out", request=request) from None
        if ABORT in answer.headers:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        content = bytes(answer.body)
        if self.rewrite and answer.status_code == 200:
            content = json.dumps(self.rewrite(json.loads(content))).encode()
        reason = answer.headers["x-pvebox-reason"].encode()
        date = {"Date": format_datetime(self.clock(), usegmt=True)}
        return httpx.Response(answer.status_code, headers=date, content=content, extensions={"reason_phrase": reason})

    def _due(self, method: str, path: str) -> list[Callable[[], object]]:
        with self._lock:
            for hook in self._hooks:
                if hook.method in (method, "*" if method != "GET" else "") and fnmatch.fnmatchcase(path, hook.path):
                    hook.left -= 1
            due = [hook.happening for hook in self._hooks if hook.left == 0]
            self._hooks = [hook for hook in self._hooks if hook.left]
        return due

    def before(self, method: str, path: str, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Let something happen just before a request of Paddock's arrives, the nth of its kind.

        In a path * stands for anything, as a method for every one that writes.
        """
        self._hooks.append(Hook(method, path, happening, nth))

    @property
    def waited_in_vain(self) -> list[str]:
        """What was to happen before a request that never came."""
        return [f"{hook.method} {hook.path}" for hook in self._hooks]

    def add_archive(self, volume: str) -> None:
        """Put a base archive on the node, as somebody who made one."""
        runtime, (storage, _, name) = self.world.runtime, volume.partition(":")
        assert isinstance(runtime, MemoryRuntime)
        runtime.add_file("pve", storage, name, 75 << 20)

    def restart_pveproxy(self, seconds: float) -> None:
        """Refuse connections for so long on the clock of Paddock."""
        self.refuses_until = clock.monotonic() + seconds

    def forget_what_was_to_happen(self) -> None:
        self._hooks.clear()

    def fault(self, kind: str, value: str = "", **more: Any) -> None:
        """Let the next request that is met go wrong."""
        self.faults.add(Rule.from_json({"kind": kind, "value": value, **more}))

    @property
    def writes(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.writes]

    # Paddock

    def agent(
        self,
        name: str = "bee",
        *,
        token: str = DEPLOYER,
        node: str = "pve",
        base: Any = BASE,
        storage: str = "local-lvm",
        template: str = "none",
        root: str | None = None,
        reach: str = "ssh",
        patient: bool = True,
        pools: str | dict[str, str] | None = None,
        fingerprint: str | None = None,
        project: str = "home",
        alongside: bool = False,
        **keys: Any,
    ) -> PaperAgent:
        """An agent in a file of its own, as a new run of Paddock finds it."""
        secret = self.world.access.tokens[token].secret
        (self._folder / "token").touch(mode=0o600)
        (self._folder / "token").write_text(f"{token}={secret}")
        file = self._folder / "paddock.yaml"
        home = {
            "url": "https://node:8006",
            "node": node,
            "token": {"file": "token"},
            "storage": storage,
            "base": base,
            "template": template,
            "ssh": {"key": "id", "reach": reach, **({"root": root} if root else {})},
            **({"pools": pools} if pools else {}),
            **({"fingerprint": fingerprint} if fingerprint else {}),
        }
        agents = {name: {"kind": "service", "command": ["/bin/true"], "place": "home", **keys}}
        file.write_text(json.dumps({"project": project, "places": {"home": {"proxmox": home}}, "agents": agents}))
        return self.agent_of(_loaded(file), name, patient=patient, alongside=alongside)

    def agent_of(self, loaded: Loaded, name: str, *, patient: bool = True, alongside: bool = False) -> PaperAgent:
        """An agent of a file whose place is this node, as a new run finds it.

        Runs before it have ended by now, unless it runs ``alongside``.
        """
        self._dead = False
        if not alongside:
            for ended in self._holders:
                ended.close()
            self._holders.clear()
        proxmox = loaded.spec.places[loaded.spec.agents[name].place].proxmox
        assert proxmox is not None
        told = Told()
        place = ProxmoxPlace(proxmox, loaded.folder, told.say, patient=patient)
        place._client._http._transport = self
        self._holders.append(place._holder)
        return PaperAgent.of_file(name, loaded, place, told, self.side)

    def client(self, token: str = WIDE, secret: str | None = None) -> Client:
        """Paddock's gate to the node, alone."""
        value = secret or self.world.access.tokens[token].secret
        client = Client("https://node:8006", "pve", Secret(f"{token}={value}"), NO_TRUST)
        client._http._transport = self
        return client

    # Others on the node, whose requests are not noted

    def root(self, *argv: str | int) -> str:
        """Root at the node's console."""
        said = Console(self.world).run([str(word) for word in argv])
        assert said.code == 0, said.err
        return said.out

    def shell(self, line: str) -> CommandResult:
        """A line in the node's shell."""
        console, said = Console(self.world), CommandResult()
        line = line.removesuffix(" &&").removeprefix("{ ").removesuffix("; }")
        for alternative in line.split(" || "):
            if alternative.startswith("exit "):
                return replace(said, code=int(alternative.split()[1]))
            said = console.run(shlex.split(alternative))
            if said.code == 0:
                break
        return said

    def somebody(self, vmid: int, **options: Any) -> None:
        """A container that somebody else makes, by another token."""
        params = {"vmid": vmid, "ostemplate": BASE, "rootfs": "local-lvm:1", "features": "nesting=1", **options}
        self._alone("POST", "/nodes/pve/lxc", params)

    def somebody_asks(self, method: str, path: str, **params: Any) -> None:
        """A request of somebody else, and the end of its task."""
        self._alone(method, path, params)

    def _alone(self, method: str, path: str, params: dict[str, Any]) -> None:
        with self.unnoted():
            client = self.client(ROOT)
            upid = client.send(method, path, params)
            if upid is not None:
                client.wait(str(upid), 600)

    @contextmanager
    def unnoted(self) -> Iterator[None]:
        noted, self.sent = self.sent, []
        try:
            yield
        finally:
            self.sent = noted

    def hold_creates(self) -> threading.Event:
        """Keep every create under way until the event is set, or the node goes down."""
        go = threading.Event()

        def wait(task: Task) -> None:
            while not go.wait(0.002):
                task.check_aborted()

        self.machines.obstacle = wait
        return go

    def crash(self) -> None:
        """The node goes down with what it is doing, and boots again."""
        for task in self.world.tasks.running():
            task.crash()
        for task in self.world.tasks.newest_first():
            task.ended.wait(5)
        for vmid in list(self.machines.running_vmids()):
            self.machines.stop(vmid)

    # The containers and volumes of the node

    @property
    def vmids(self) -> list[int]:
        return self.world.configs.vmids()

    def config(self, vmid: int) -> dict[str, Any]:
        node = self.world.configs.node_of(vmid) or ""
        return dict(self.world.configs.load(vmid, node).options)

    def put(self, vmid: int, **options: Any) -> None:
        """Write into a configuration file, as only the node itself can; None takes an option out."""
        node = self.world.configs.node_of(vmid) or ""
        config = self.world.configs.load(vmid, node)
        for key, value in options.items():
            config.options.pop(key, None)
            if value is not None:
                config.options[key] = value
        self.world.configs.save(vmid, node, config)

    @property
    def volumes(self) -> set[str]:
        """The names of all volumes."""
        return {volume.ref.name for volume in self.world.runtime.volumes.on("pve", "local-lvm")}

    @property
    def running(self) -> list[int]:
        return sorted(self.machines.running_vmids())


def play_ssh(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    """Simulate ssh to the machines of the node, and the clock that Paddock waits with."""

    def scan(address: str, **_: Any) -> str | None:
        return f"ssh-ed25519 {node.machines.host_keys[node.machines.vmid_at(address)]}"

    monkeypatch.setattr(reach_module, "listens", lambda *_: True)
    monkeypatch.setattr(reach_module, "scan_host_key", scan)
    monkeypatch.setattr(reach_module, "SshGuest", lambda name, address, **_: PlayedSsh(node.machines, address))
    monkeypatch.setattr(reach_module, "SharedConnection", NoConnection)
    monkeypatch.setattr(tls, "context", lambda *_: NO_TRUST)
    node.waits.refresh()
    monkeypatch.setattr(clock, "current", node.waits)
