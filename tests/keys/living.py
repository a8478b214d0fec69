"""An agent that runs in memory, and edits of its file: what runs, whether it answers, and what interrupted it.

The command line, the plans, the places and the client are the real ones, as in `faults.world`. Only the programs on a
machine are not run: what Paddock sends there is kept.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from faults.looks import Silent
from faults.world import Memories, Said, World
from keys.shapes import AGENT, BASE
from keys.world import write_files
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.channels import Guest
from paddock.core import open as opening
from paddock.core.observe import Observation
from paddock.core.resolve import Located, Resolved
from paddock.onboard.configure import Sent
from paddock.places.host import place as host
from paddock.places.open import place_for
from paddock.places.proxmox.machine import reach as reach_module
from paddock.places.proxmox.node.notes import Mark
from paddock.places.proxmox.place import ProxmoxPlace
from paddock.plan.actions import (
    AgentAction,
    ApplyBundle,
    AwaitAnswer,
    CreateContainer,
    GoBack,
    RemoveAgent,
    RemoveContainer,
    StopAgent,
)
from paddock.plan.agent import AgentSeen
from paddock.plan.container import NOTHING_YET, ContainerSeen
from paper import PaperSide
from places.node import ROOT, Killed, Node, PlayedSsh, address_of

LOOKS: Final = (["status"], ["plan"], ["verify"], ["logs", AGENT])
HOST: Final = "host"
# Options that Proxmox writes in two ways, or that say nothing about a machine that exists.
_SAME: Final = {r'"features": "nesting=0", ': "", r"(mp=[^\"]*),size=\d+G": r"\1"}
_CACHES: Final = re.compile("mp=/var/lib/(docker|containers)[,/]?")  # where engines have their data
# What brings a change back that failed.
_GO_BACK: Final = GoBack
_INTERRUPTS: Final = (StopAgent, RemoveAgent, RemoveContainer, ApplyBundle)


@dataclass(frozen=True)
class Running:
    """What an agent runs with."""

    files: Mapping[str, str]  # of its bundle, and its secrets
    container: Sequence[str] = ()  # the image of its container, and where it is on the machine
    tree: str | None = None
    packages: frozenset[str] = frozenset()


class CutNode(Node):
    """A simulated node, and runs that may be killed before and after each effect on it or on its machines."""

    left: int | None = None  # effects until the run is killed

    def reach(self) -> None:
        """Pass a point at which the run may be killed."""
        if self._dead:
            raise Killed
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self._dead = True
                raise Killed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return super().handle_request(request)
        self.reach()
        answer = super().handle_request(request)
        self.reach()
        return answer


class LivingSide(PaperSide):
    """A machine side whose agents run."""

    def __init__(self, node: CutNode) -> None:
        super().__init__(node.machines.inside)
        self.node = node
        self.runs: dict[str, Running] = {}  # by machine
        self.made: dict[tuple[str, str], tuple[ContainerSeen, Sequence[str]]] = {}  # containers by machine and engine
        self.verified: dict[str, tuple[Running, AgentSeen, Any]] = {}  # with what each agent answered last
        self.interrupted: list[str] = []  # what stopped an agent that was running
        self.works: list[Running] | None = None  # the configurations with which an agent answers; None: all
        stop = node.machines.stop

        def stopped(vmid: int) -> None:
            self._interrupt(address_of(vmid), "its machine is stopped")
            stop(vmid)

        node.machines.stop = stopped  # type: ignore[method-assign]

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        own = agent.runtime.container
        mine = {engine: seen for (name, engine), (seen, _) in self.made.items() if name == guest.name}
        container = mine.pop(own.engine.program, NOTHING_YET) if own else ContainerSeen()
        seen = replace(super().look(agent, guest), container=container, left=dict.fromkeys(mine, ()))
        before = self.verified.get(guest.name)
        if before and before[0] != self.runs.get(guest.name):
            return replace(seen, before=before[1].bundle_id)
        return seen

    def running(self, name: str) -> Running | None:
        """Return what the agent on a machine runs with."""
        seen = self.inside.get(name)
        there = name == HOST or int(name.rpartition(".")[2]) in self.node.running
        if not (there and seen and seen.active and name in self.runs):
            return None
        return replace(self.runs[name], packages=seen.packages)

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        return any(map(self._answers, self.runs))

    def _answers(self, name: str) -> bool:
        found = self.running(name)
        return found is not None and (self.works is None or found in self.works)

    def _interrupt(self, name: str, how: str) -> None:
        if self.running(name):
            self.interrupted.append(how)

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Any) -> None:
        self.node.reach()
        name = reach().name
        if isinstance(action, _INTERRUPTS) or (isinstance(action, CreateContainer) and action.replaces):
            self._interrupt(name, type(action).__name__)
        self._change(agent, action, name)
        if not isinstance(action, CreateContainer | RemoveAgent):
            super().perform(agent, action, seen, reach)
        self.node.reach()
        if isinstance(action, AwaitAnswer):
            if not self._answers(name):
                self.inside[name] = replace(self.inside[name], answered="")
                raise PaddockError(f"{agent.name} did not become healthy", hint="read its log")
            self.verified[name] = self.runs[name], self.inside[name], dict(self.made)

    def _change(self, agent: Located, action: AgentAction, name: str) -> None:
        own = agent.runtime.container
        if isinstance(action, _GO_BACK):
            self.runs[name], self.inside[name], self.made = self.verified[name]
        match action:
            case ApplyBundle():
                assert isinstance(agent, Resolved)
                container = self.made[name, own.engine.program][1] if own else ()
                tree = agent.code[0] if agent.code else None
                self.runs[name] = Running(files(agent.sent()), container, tree)
            case CreateContainer():
                assert isinstance(agent, Resolved)
                want = agent.want().container
                assert own and want  # noqa: PT018
                made = ContainerSeen("up", "overlay", frozenset({want.image}), want.identity)
                how = [own.image.name, repr(agent.runtime.deployed)]
                self.made[name, own.engine.program] = made, how
            case RemoveContainer(engine):
                self.made.pop((name, engine), None)
            case RemoveAgent():
                self.inside.pop(name, None)


def files(sent: Sent) -> dict[str, str]:
    """Return the files that a machine gets."""
    bundle = {f"bundle/{path}": file.content for path, file in sent.files.items()}
    secrets = {f"secret-files/{name}": content for name, content in sent.secret_files.items()}
    return {**bundle, **secrets, "secrets.env": sent.secrets}


@dataclass(frozen=True)
class HostGuest:
    """A host. No program runs there, and its account has a home."""

    name: str = HOST

    def run(self, argv: Sequence[str], **_: object) -> Result:
        return Result(tuple(argv), 0, "/home/someone\n" if "printenv" in argv else "", "", 0)


class EditedWorld(World):
    """A world with one file, which is edited, and one agent."""

    node: CutNode
    side: LivingSide
    file: dict[str, Any]

    @classmethod
    def begin(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, given: Path, file: dict[str, Any]) -> EditedWorld:
        """Return a world in which nothing was done yet. The given folder has the files that keys name."""
        shutil.copytree(given, folder)
        node = CutNode(folder)
        node.add_archive(BASE)
        (folder / "token").write_text(f"{ROOT}={node.world.access.tokens[ROOT].secret}")
        world = cls(folder, monkeypatch, node, Memories(node, {}, 0))
        world.side = LivingSide(node)
        node.side = world.side
        world.write(file)
        return world

    def write(self, file: dict[str, Any]) -> None:
        self.file = file
        (self.folder / "paddock.yaml").write_text(json.dumps(file))

    def _connect(self, patch: pytest.MonkeyPatch) -> None:
        super()._connect(patch)

        def connected(*arguments: Any, **options: Any) -> Any:
            found: Any = place_for(*arguments, **options)
            if isinstance(found, ProxmoxPlace):
                found._client._http._transport = self.node
            return found

        def ssh(_name: str, address: str, **_: Any) -> Silent:
            return Silent(PlayedSsh(self.node.machines, self._usual(address)))

        def scan(address: str, **_: Any) -> str:
            return f"ssh-ed25519 {self.node.machines.host_keys[int(self._usual(address).rpartition('.')[2])]}"

        patch.setattr(opening, "place_for", connected)
        patch.setattr(host, "guest_of", lambda *_: Silent(HostGuest()))
        patch.setattr(reach_module, "SshGuest", ssh)
        patch.setattr(reach_module, "scan_host_key", scan)

    def _usual(self, address: str) -> str:
        """Return the address that a machine with a static one would have got from DHCP."""
        static = (vmid for vmid in self.node.vmids if f"ip={address}/" in str(self.node.config(vmid).get("net0")))
        return address_of(found) if (found := next(static, None)) else address

    def up(self, kill: int | None = None) -> Said | None:
        """Run `up`; None if it was killed after so many effects."""
        self.node.left, self.side.interrupted = kill, []
        try:
            return self.run("up", "--no-wait")
        except Killed:
            return None
        finally:
            self.node._dead, self.node.left = False, None
            self.node.world.tasks.wait_for_all(20)
            self.node.waits.refresh()

    def crashes(self) -> list[str]:
        """Look at the agent with each verb that changes nothing; return the errors that no person can act on."""
        said = [(words[0], self.run(*words)) for words in LOOKS]
        return [f"`{verb}` crashes: {each.err}" for verb, each in said if "unexpected " in each.err]

    def noted(self) -> bool:
        """Whether `plan` tells what it leaves as it is."""
        return self.run("plan").out.strip() != f"{AGENT}: nothing to do"

    def running(self) -> Running | None:
        """Return what the agent runs with."""
        found = list(filter(None, map(self.side.running, self.side.runs)))
        assert len(found) < 2, "two agents run"
        return found[0] if found else None

    def answers(self) -> bool:
        return any(map(self.side._answers, self.side.runs))

    def facts(self) -> tuple[object, Running | None]:
        """Return what the file decides: the agent's containers, without their numbers, and what it runs with."""
        shape = json.dumps(self.shape()["containers"])
        for written, meant in _SAME.items():
            shape = re.sub(written, meant, shape)
        mine = {name: each for name, each in json.loads(shape).items() if name.startswith(("pet", "cattle"))}
        texts = sorted(Mark.text_above(str(self.node.config(vmid).get("description", ""))) for vmid in self.node.vmids)
        return (mine, texts), self.running()

    def everything(self) -> object:
        """Return all that a run can have changed on the node, and what the agent runs with."""
        return [self.node.config(vmid) for vmid in self.node.vmids], self.node.running, self.running()

    @property
    def memory(self) -> list[str]:
        """The memories on the node. The cache of an engine is none."""
        options = [str(value) for vmid in self.node.vmids for value in self.node.config(vmid).values()]
        caches = {name for name in self.memories.texts for each in options if name in each and _CACHES.search(each)}
        return sorted(text for name, text in self.memories.texts.items() if text and name not in caches)


def given_files(folder: Path) -> Path:
    """Write the files that rows of the table name, once for all worlds."""
    folder.mkdir()
    write_files(folder, "")
    return folder
