"""A simulated node that outlives the runs that are killed on it, with the states of its agents on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import httpx
import pytest

from faults.disks import Disks, DiskSsh, claim, identity_of
from faults.killing import Ask, Shared, share, watch_programs
from killed_script import files_below
from paddock.base.process import Result
from paddock.channels import Guest
from paddock.core import streams
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.kinds import load
from paddock.places.proxmox import place as place_module
from paddock.places.proxmox.machine import reach as reach_module
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Claim, Role
from paddock.places.proxmox.node.observation import LxcContainer
from paddock.plan.actions import (
    AgentAction,
    ApplyBundle,
    ClaimState,
    CreateContainer,
    GetImage,
    PullImage,
    ReceiveState,
    RemoveContainer,
    RemoveFormerState,
    RenameAgent,
    SettleState,
    StartEngine,
    SwapState,
)
from paddock.plan.agent import AgentSeen
from paddock.plan.container import NOTHING_YET
from paper import PaperSide
from places.node import BASE, ROOT, Node, PaperAgent, PlayedSsh, play_ssh
from pvebox.console.shell import CommandResult

UNFINISHED: Final = frozenset({Role.BUILDER, Role.READER, Role.SPARE})
UNSETTLED: Final = ("incoming", "incoming.json", "incoming-aside", "discarded")


class DiskSide(PaperSide):
    """Machines on paper whose states are on disk: there the real programs receive, swap and remove states."""

    def __init__(self, inside: dict[str, AgentSeen], state: Callable[[int], tuple[str, str]]) -> None:
        super().__init__(inside)
        self.state = state

    def _own(self, guest: Guest) -> Path:
        return Path(self.state(int(guest.name.rpartition(".")[2]))[1])

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        found, state = super().look(agent, guest), self._own(guest)
        own = state / ".paddock"
        left = [own / name for name in UNSETTLED if (own / name).exists()]
        return replace(
            found,
            state_of=identity_of(state),
            kept_aside=str(own / "before") if (own / "before").exists() else None,
            unsettled=str(left[0]) if left else None,
        )

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        match action:
            case ReceiveState():
                streams.receive_state(agent, reach())
            case SwapState():
                streams.restoration(agent, reach(), "swap")
            case SettleState():
                streams.restoration(agent, reach(), "settle")
            case RemoveFormerState():
                streams.restoration(agent, reach(), "finish")
            case ClaimState():
                claim(self._own(reach()), str(agent.id))
            case RenameAgent():
                (self._own(reach()) / ".paddock/identity").unlink()
                claim(self._own(reach()), str(agent.id))
                self.inside[reach().name] = AgentSeen()
            case StartEngine() | GetImage() | PullImage() | RemoveContainer():
                name = reach().name
                self.inside[name] = _changed(self.inside.get(name, AgentSeen(container=NOTHING_YET)), action)
            case ApplyBundle() | CreateContainer():
                claim(self._own(reach()), str(agent.id))
                super().perform(agent, action, seen, reach)
            case _:
                super().perform(agent, action, seen, reach)


def _changed(seen: AgentSeen, action: StartEngine | GetImage | PullImage | RemoveContainer) -> AgentSeen:
    match action:
        case StartEngine():
            return replace(seen, container=replace(seen.container, engine="up"))
        case GetImage(image) | PullImage(image):
            return replace(seen, container=replace(seen.container, images=seen.container.images | {image}))
        case RemoveContainer(engine):
            return replace(seen, left={name: each for name, each in seen.left.items() if name != engine})


@dataclass(frozen=True)
class NodeShell:
    """Root's shell on the node, as if over ssh."""

    shell: Callable[[str], CommandResult]
    name: str = "root@node"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        said = self.shell(argv[-1])
        return Result(tuple(argv), said.code, said.out, said.err, 0.0)

    def piped(self, argv: Sequence[str]) -> NoReturn:
        raise AssertionError(f"nothing is streamed to the node, so not {argv}")


class NodeWorld:
    """A node with its disks."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.node = Node(folder)
        self.disks = Disks(self.node, folder)
        play_ssh(monkeypatch, self.node)
        self._known: set[str] = set()
        self._state: Callable[[int], tuple[str, str]] = self.disks.state
        monkeypatch.setattr(reach_module, "SshGuest", self._ssh)
        self._shell: Callable[[str], CommandResult] = self.node.shell
        monkeypatch.setattr(place_module, "SshGuest", lambda *_: NodeShell(lambda line: self._shell(line)))
        self.node.side = DiskSide(self.node.machines.inside, self.disks.state)

    def _ssh(self, _name: str, address: str, **_: Any) -> DiskSsh:
        return DiskSsh(address, PlayedSsh(self.node.machines, address), lambda vmid: self._state(vmid))

    def pause(self) -> None:
        """Remember what all states have: none of it may be lost, at no moment."""
        self._known = self.disks.memories()
        for ended in self.node._holders:  # a copy of this process would keep their claims alive
            ended.close()
        self.node._holders.clear()
        self.node._dead = False

    def is_safe(self) -> bool:
        """Whether everything that agents had learned is on some volume."""
        return self._known <= self.disks.memories()

    def refresh(self) -> None:
        """Let the next run wait as long as any other."""
        self.node.waits.refresh()

    # A run that can be killed

    def facts(self) -> object:
        """Return everything that a killed run leaves: files, running containers, and what machines remember."""
        machines = self.node.machines
        remembered = repr((machines.inside, machines.host_keys, machines.strays, sorted(self.node.running)))
        try:
            files = files_below([str(self.folder)])
        except FileNotFoundError:  # a task of the node has just renamed it
            files = None
        working = files is None or self.node.world.tasks.running()
        return object() if working else (files, remembered)  # a task that runs changes something at any time

    def services(self) -> Mapping[str, Callable[..., Any]]:
        machines = self.node.machines
        return {
            "request": self._request,
            "inside": share(lambda: machines.inside),
            "host keys": share(lambda: machines.host_keys),
            "strays": share(lambda: machines.strays),
            "state": self.disks.state,
            "shell": self.node.shell,
        }

    def connect(self, ask: Ask, reach: Callable[[str], None]) -> None:
        machines: Any = self.node.machines
        machines.inside, machines.host_keys = Shared(ask, "inside"), Shared(ask, "host keys")
        machines.strays = Shared(ask, "strays")
        self._state = lambda vmid: ask("state", vmid)
        side: Any = self.node.side
        side.inside, side.state = machines.inside, self._state
        self._shell = lambda line: ask("shell", line)
        watch_programs(DiskSsh, reach)
        watch_programs(NodeShell, reach)

        def handle_request(request: httpx.Request) -> httpx.Response:
            words = (request.method, str(request.url), list(request.headers.items()), request.read())
            writes = request.method != "GET"
            name = f"{request.method} {urlsplit(str(request.url)).path.rpartition('/')[2]}"
            if writes:
                reach(f"before {name}")
            status, headers, content, reason = ask("request", *words, request.extensions["timeout"])
            if writes:
                reach(f"after {name}")
            return httpx.Response(status, headers=headers, content=content, extensions={"reason_phrase": reason})

        self.node.handle_request = handle_request  # type: ignore[method-assign]

    def _request(self, method: str, url: str, headers: Any, content: bytes, timeout: Any) -> tuple[Any, ...]:
        request = httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": timeout})
        answer = self.node.handle_request(request)
        return answer.status_code, list(answer.headers.items()), answer.content, answer.extensions["reason_phrase"]

    # Agents

    def agent(self, name: str = "bee", **keys: Any) -> PaperAgent:
        return self.node.agent(name, **keys)

    def hermes(self, **keys: Any) -> PaperAgent:
        """An agent of a kind that has copies, whose backups are in a folder."""
        folder = self.folder
        (folder / "locks").mkdir(exist_ok=True)
        (folder / "locks/hermes-agent-0.30.0.txt").write_text("hermes-agent==0.30.0\n")
        provider = {"x": {"base_url": "http://127.0.0.1:9/v1"}}
        spec = {
            "kind": "hermes",
            "version": "0.30.0",
            "place": "home",
            "settings": {"model": {"provider": "custom:x", "default": "m"}, "providers": provider},
            "backup": {"to": "./backups"},
            **keys,
        }
        return self.of_place({"template": "auto"}, **spec)

    def of_place(self, place: Mapping[str, Any], /, **spec: Any) -> PaperAgent:
        """An agent in a file of its own, with other keys of the place."""
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(f"{ROOT}={self.node.world.access.tokens[ROOT].secret}")
        home = {
            "url": "https://node:8006",
            "node": "pve",
            "token": {"file": "token"},
            "storage": "local-lvm",
            "base": BASE,
            "ssh": {"key": "id"},
            **place,
        }
        file = self.folder / "other.yaml"
        places = {"home": {"proxmox": home}}
        file.write_text(json.dumps({"project": "home", "places": places, "agents": {"bee": spec}}))
        return self.node.agent_of(load(file), "bee")

    def agents(self) -> list[PaperAgent]:
        """Return the agents of the last run's file."""
        files = sorted((self.folder.glob("*.yaml")), key=lambda path: path.stat().st_mtime_ns)
        return [
            self.node.agent_of(loaded, name)
            for path in files[-1:]
            for loaded in [load(path)]
            for name in loaded.spec.agents
        ]

    def learn(self, vmid: int, name: str = "notes.md", text: str = "what nobody else knows\n") -> None:
        """Write into the state that a machine has, as its agent does."""
        path = Path(self.disks.state(vmid)[1]) / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # The node as it is

    def settle(self) -> None:
        """Wait for the tasks of the node that a killed run had begun."""
        for task in self.node.world.tasks.running():
            task.ended.wait(20)

    def containers(self) -> list[LxcContainer]:
        running = set(self.node.running)
        return [
            LxcContainer(vmid, "running" if vmid in running else "stopped", self.node.config(vmid))
            for vmid in self.node.vmids
        ]

    def state_volumes(self) -> dict[str, str]:
        """Return the volumes with states, by the path in their owner's configuration."""
        found: dict[str, str] = {}
        for container in self.containers():
            for mount in container.mounts:
                if mount.owner == container.vmid and mount.path and not mount.path.startswith("/var/lib/paddock-cache"):
                    found[mount.path] = mount.volume
        return found

    def states(self) -> dict[str, str | None]:
        """Return the hash of each state, by the path in its owner's configuration."""
        return {path: self.disks.checksum(volume) for path, volume in self.state_volumes().items()}

    def summary(self) -> list[str]:
        """Return a line for each container, without numbers."""
        return sorted(map(_line, self.containers()))

    def wrong(self) -> list[str]:
        """Return what no finished run leaves: locks, claims, lifted protection, unfinished containers, orphans."""
        found = [problem for container in self.containers() for problem in self._problems(container)]
        named = {mount.volume for container in self.containers() for mount in container.mounts}
        orphans = [name for name in sorted(self.node.volumes) if f"local-lvm:{name}" not in named]
        writers: dict[str, int] = {}
        for container in self.containers():
            for mount in container.mounts if container.status == "running" else ():
                writers[mount.volume] = writers.get(mount.volume, 0) + 1
        found += [f"{volume} has {count} writers" for volume, count in writers.items() if count > 1]
        return [*found, *(f"{name} is a volume that nothing names" for name in orphans)]

    def _problems(self, container: LxcContainer) -> list[str]:
        mark, notes, name = container.mark, container.notes, container.name
        claim = Claim.from_notes(notes)
        # The daily token cannot change a pet or a template. There the claim of a killed run stays until someone else
        # writes the notes: it excludes nobody on this computer, and nobody anywhere when its minutes are over.
        excludes = claim is not None and (
            container.has(Role.CATTLE) or claim.blocks("nobody", datetime.now(UTC), Holder().has_ended)
        )
        return [
            *([f"{name} is locked"] if container.config.get("lock") else []),
            *([f"{name} has a claim"] if excludes else []),
            *([f"{name} is an unfinished {mark.role}"] if mark and (mark.role in UNFINISHED or mark.new) else []),
            *([f"{name} is not protected"] if container.has(Role.PET) and not container.flag("protection") else []),
            *([f"{name} has {key}" for key in container.config if key.startswith("unused")]),
            *(
                [f"{name} has a note of an unfinished run"]
                if "forgetting" in notes or "paddock-restart" in notes
                else []
            ),
        ]


def _line(container: LxcContainer) -> str:
    mark = container.mark
    mounts = sorted(mount.path or mount.key for mount in container.mounts)
    role = f"{mark.role} {mark.agent or '-'}" if mark else f"of somebody: {container.config.get('hostname')}"
    size = [str(mount.size) for mount in container.mounts]
    return f"{role} {container.status} {' '.join(mounts)} {' '.join(sorted(size))}"
