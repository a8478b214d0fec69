"""A simulated node with agents that remember: what their volumes contain, whole copies of it, and its shape.

The command line, the plans, the place and the client are the real ones. Nothing runs inside machines, so a volume has
one text as its content: the first machine that starts with an empty volume writes a new one. A text that is missing
afterwards is a lost memory, and a second text of one agent is a second memory.
"""

from __future__ import annotations

import io
import itertools
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from paddock import cli
from paddock.backups.verified import check
from paddock.base.process import Result
from paddock.channels import Guest
from paddock.core import open as opening
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.places.open import place_for
from paddock.places.proxmox import place
from paddock.places.proxmox.access import visibility
from paddock.places.proxmox.node import observe, reading
from paddock.places.proxmox.node.notes import Claim, Mark
from paddock.plan.actions import AgentAction, ReceiveState
from paddock.plan.agent import AgentSeen
from paper import PaperSide
from places.laptops import OneAfterAnother
from places.node import Machines, Node, play_ssh
from pvebox.runtime.contract import ContainerSpec, Mount, VolumeRef

_SETTLE: Final = 5  # seconds, by the fast clock, that `up` waits for a lock that no task of Paddock holds
ORPHANS: Final = "volumes without a container"
_VOLUME: Final = re.compile(r"(?:vm|base)-(\d+)-disk-\d+")


_build_command_line: Final = typer.main.get_command


@cache
def _command_line(app: typer.Typer) -> Any:
    """Return the command line with all verbs, built once: that takes longer than some commands."""
    cli.import_verbs()
    return _build_command_line(app)


class Memories:
    """The content of each volume, by its name."""

    def __init__(self, node: Node, texts: dict[str, str], written: int) -> None:
        self.texts = texts
        self._numbers = itertools.count(written + 1)
        self.written = written
        self._follow(node.world.runtime.volumes, node.machines)

    def _follow(self, volumes: Any, machines: Machines) -> None:
        """Change the contents with the volumes."""
        texts, allocate, remove = self.texts, volumes.allocate, volumes.remove
        rename, copy = volumes.rename, volumes.copy

        def allocated(ref: VolumeRef, size: int) -> None:
            allocate(ref, size)
            texts[ref.name] = ""

        def removed(ref: VolumeRef) -> None:
            remove(ref)
            texts.pop(ref.name, None)

        def renamed(ref: VolumeRef, name: str) -> None:
            rename(ref, name)
            texts[name] = texts.pop(ref.name, "")

        def copied(source: VolumeRef, target: VolumeRef, **more: Any) -> None:
            copy(source, target, **more)
            texts[target.name] = texts.get(source.name, "")

        volumes.allocate, volumes.remove, volumes.rename, volumes.copy = allocated, removed, renamed, copied
        start, mount_live = machines.start, machines.mount_live

        def started(spec: ContainerSpec) -> None:
            start(spec)
            for mount in spec.mounts:
                self._write(mount)

        def mounted(vmid: int, mount: Mount) -> None:
            mount_live(vmid, mount)
            self._write(mount)

        machines.start, machines.mount_live = started, mounted  # type: ignore[method-assign]

    def _write(self, mount: Mount) -> None:
        """An agent that finds an empty volume writes a memory into it."""
        source = mount.source
        if mount.key != "rootfs" and isinstance(source, VolumeRef) and not self.texts.get(source.name):
            self.written = next(self._numbers)
            self.texts[source.name] = f"memory {self.written}"


class ReadingSide(PaperSide):
    """Machines on paper. A machine that nothing was installed on reads a state of the agent, as a reader does."""

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        return self.inside.get(guest.name, AgentSeen(state_of=str(agent.id)))

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if isinstance(action, ReceiveState) and agent.incoming:
            with agent.incoming.open() as stream:
                assert check(stream)["agent"] == str(agent.id)
        super().perform(agent, action, seen, reach)


class PlayedRoot:
    """The shell of the node, as if over ssh."""

    name = "root@node"

    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        said = self._node.shell(argv[-1])
        return Result(tuple(argv), said.code, said.out, said.err, 0.0)


@dataclass(frozen=True)
class Said:
    """The end of one command."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The error message and its hints, as a person reads them."""
        lines = self.err.splitlines()
        start = next((at for at, line in enumerate(lines) if line.startswith("error: ")), len(lines))
        return "\n".join(lines[start:]) or self.out.strip()


class World:
    """A node with its volumes, and a folder with a file whose place is the node."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, node: Node, memories: Memories) -> None:
        self.folder = folder
        self.node = node
        self.memories = memories
        self._monkeypatch = monkeypatch

    @classmethod
    def new(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Path], Node] = Node) -> World:
        folder.mkdir()
        node = kind(folder)
        node.side = ReadingSide(node.machines.inside)
        return cls(folder, monkeypatch, node, Memories(node, {}, 0))

    def copy(self, folder: Path, kind: Callable[[Path], Node]) -> World:
        """Return a copy that changes on its own."""
        self.node.world.tasks.wait_for_all(20)
        shutil.copytree(self.folder, folder)
        node, old = kind(folder), self.node.machines
        new = node.machines
        new.host_keys, new.inside = dict(old.host_keys), dict(old.inside)
        new.home, new.cloned = old.home, old.cloned
        node.side = ReadingSide(new.inside)
        return World(folder, self._monkeypatch, node, Memories(node, dict(self.memories.texts), self.memories.written))

    def run(self, *words: str) -> Said:
        """Run a command of Paddock in the folder, as one process would."""
        patch = self._monkeypatch
        with patch.context() as here:
            self._connect(here)
            here.chdir(self.folder)
            for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
                here.setenv(name, str(self.folder / name))
            here.setattr(sys, "argv", ["paddock", *words])
            here.setattr(sys, "stdin", io.StringIO())
            out, err = io.StringIO(), io.StringIO()
            code = 0
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    cli.main()
                except SystemExit as end:
                    code = end.code if isinstance(end.code, int) else 0
        return Said(code, out.getvalue(), err.getvalue())

    def _connect(self, patch: pytest.MonkeyPatch) -> None:
        play_ssh(patch, self.node)

        def connected(*arguments: Any, **options: Any) -> Any:
            found: Any = place_for(*arguments, **options)
            found._client._http._transport = self.node
            return found

        patch.setattr(opening, "place_for", connected)
        patch.setattr(typer.main, "get_command", _command_line)
        patch.setattr(place, "SshGuest", lambda *_: PlayedRoot(self.node))
        patch.setattr(opening, "OnMachine", lambda: self.node.side)
        patch.setattr(observe, "_SETTLE_SECONDS", _SETTLE)
        for module in (reading, visibility):
            patch.setattr(module, "ThreadPoolExecutor", OneAfterAnother)

    def is_locked(self, vmid: int) -> bool:
        return vmid in self.node.vmids and "lock" in self.node.config(vmid)

    # The node as it is

    def shape(self) -> dict[str, Any]:
        """Return everything that is on the node, without numbers, keys and times."""
        self.node.world.tasks.wait_for_all(20)
        labels = {vmid: self._label(vmid) for vmid in self.node.vmids}
        found: dict[str, Any] = {}
        for vmid, label in sorted(labels.items(), key=lambda each: (each[1], each[0])):
            name = label if label not in found else f"{label} (again)"
            found[name] = self._container(vmid, labels)
        named = {match[0] for vmid in self.node.vmids for match in _VOLUME.finditer(str(self.node.config(vmid)))}
        return {
            "containers": found,
            ORPHANS: sorted(
                _VOLUME.sub(lambda name: f"a volume of {labels.get(int(name[1]), 'nobody')}", volume)
                for volume in self.node.volumes - named
            ),
            "memories": sorted(text for text in self.memories.texts.values() if text),
        }

    def _label(self, vmid: int) -> str:
        mark = Mark.from_notes(str(self.node.config(vmid).get("description", "")))
        if mark is None:
            return f"container {self.node.config(vmid).get('hostname', '?')}"
        whose = mark.agent or ",".join(sorted(map(str, mark.adopted_agents)))
        return f"{mark.role} {whose}".strip()

    def _container(self, vmid: int, labels: dict[int, str]) -> dict[str, Any]:
        config = self.node.config(vmid)
        notes = str(config.pop("description", ""))
        mark = Mark.from_notes(notes)
        shown = {key: self._value(str(value), labels) for key, value in config.items() if key != "digest"}
        facts: dict[str, Any] = {"running": vmid in self.node.running, "claim": Claim.from_notes(notes) is not None}
        if mark:
            facts |= {"new": mark.new is not None, "forgetting": mark.forgetting, "adopted": mark.adopted}
        return {**dict(sorted(shown.items())), **facts, "restart": "paddock-restart" in notes}

    def _value(self, value: str, labels: dict[int, str]) -> str:
        def volume(name: re.Match[str]) -> str:
            text = self.memories.texts.get(name[0], "")
            return f"[{labels.get(int(name[1]), 'nobody')}{': ' + text if text else ''}]"

        return re.sub(r"hwaddr=[0-9A-F:]+", "hwaddr=MAC", _VOLUME.sub(volume, value))
