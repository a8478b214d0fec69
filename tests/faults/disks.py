"""Volumes of the simulated node that have contents: a folder each, which follows its volume wherever that goes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asked import Played, answer, asked, elsewhere, is_asked
from paddock.base.process import Pipes, Result
from paddock.channels.local import LocalGuest
from paddock.places.proxmox.node.observation import LxcContainer
from places.node import Node, PlayedSsh

_OF_THE_ROOT_DISK = ("ReportStrays", "ReportVersion")  # requests about files that no volume has
OWN_FILES = (".paddock/lease", ".paddock/holder")  # they say who runs, and not what the agent knows


class Disks:
    """The contents of all volumes and archives of a node."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self._volumes, self._archives = folder / "disks", folder / "archives"
        self._volumes.mkdir()
        self._archives.mkdir()
        volumes, containers = node.world.runtime.volumes, node.machines
        _after(volumes, "allocate", lambda ref, *_: self._at(ref.name).mkdir())
        _after(volumes, "remove", lambda ref: shutil.rmtree(self._at(ref.name), ignore_errors=True))
        _after(volumes, "rename", lambda ref, name: self._at(ref.name).rename(self._at(name)))
        _after(volumes, "copy", lambda ref, to, **_: shutil.copytree(self._at(ref.name), self._at(to.name)))
        _after(containers, "archive", self._save)
        _after(containers, "populate", self._unpack)

    def _at(self, volume: str) -> Path:
        return self._volumes / volume

    def _save(self, order: Any, *_: Any) -> None:
        for mount in order.spec.mounts:
            if mount.key != "rootfs":
                shutil.copytree(self._at(mount.source.name), self._archives / Path(order.shown_target).name)

    def _unpack(self, spec: Any, archive: Any, _: Any) -> None:
        saved = self._archives / Path(archive.volid).name
        for mount in spec.mounts:
            if saved.exists() and mount.key != "rootfs":
                shutil.copytree(saved, self._at(mount.source.name), dirs_exist_ok=True)

    def mounted(self, vmid: int) -> tuple[str, Path]:
        """Return where a machine expects the state, and the folder that is there.

        Without a mount it is a folder of the root disk, which is destroyed with the machine.
        """
        container = LxcContainer(vmid, "running", self.node.config(vmid))
        for mount in container.mounts:
            if mount.path and mount.path.startswith(("/var/lib/paddock/", "/home/")):
                return mount.path, self._at(mount.volume.partition(":")[2])
        return "/var/lib/paddock", self._at(next(iter(container.mounts)).volume.partition(":")[2])

    def state(self, vmid: int) -> tuple[str, str]:
        """Return what `mounted` returns for the machine, as texts. It exists."""
        path, folder = self.mounted(vmid)
        folder.mkdir(exist_ok=True)
        return path, str(folder)

    def memories(self) -> set[str]:
        """Return a hash of each home that has files, wherever it is."""
        homes = [folder / name for folder in self._volumes.iterdir() for name in ("home", ".paddock/before")]
        return {checksum(home) for home in homes if home.is_dir() and any(home.iterdir())}

    def checksum(self, volume: str) -> str | None:
        """Return a hash of everything that a volume has; None if the volume is gone."""
        top = self._at(volume.partition(":")[2].partition(",")[0])
        return checksum(top) if top.exists() else None


def checksum(top: Path) -> str:
    """Return a hash of the files of a state."""
    found = hashlib.sha256()
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        name = str(path.relative_to(top))
        if name not in OWN_FILES:
            found.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _after(thing: Any, name: str, work: Callable[..., object]) -> None:
    """Do something after a method of an object."""
    real = getattr(thing, name)

    def both(*arguments: Any, **more: Any) -> Any:
        result = real(*arguments, **more)
        work(*arguments, **more)
        return result

    setattr(thing, name, both)


@dataclass(frozen=True)
class DiskSsh:
    """A machine of the node. Paddock's programs run on the folder of the volume that the machine mounts."""

    name: str  # its address
    played: PlayedSsh
    state: Callable[[int], tuple[str, str]]

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        assert isinstance(stdin, bytes)
        if is_asked(argv):
            name, given = asked(stdin)
            if name == "ClaimForRestore":
                claim(Path(self._state()[1]), given["agent"]["id"])
                return Result(tuple(argv), 0, answer(), "", 0)
            if name in _OF_THE_ROOT_DISK:
                return self.played.run(argv, stdin=stdin, deadline=deadline)
            stdin = elsewhere(stdin, *self._state())
        if argv[0] in ("test", "python3") or "-I" in argv:
            return LocalGuest.run(LocalGuest(), self._here(argv), stdin=stdin, deadline=deadline)
        return self.played.run(argv, stdin=stdin, deadline=deadline)

    @contextmanager
    def piped(self, argv: Sequence[str]) -> Iterator[Pipes]:
        assert is_asked(argv), argv
        with LocalGuest.piped(LocalGuest(), argv) as pipes:

            def begin(_: str, given: dict[str, Any]) -> Pipes:
                path, folder = self._state()
                given |= json.loads(json.dumps(given).replace(path, folder))
                return pipes

            yield Played(begin).pipes

    def _here(self, argv: Sequence[str]) -> list[str]:
        """Return the command with the folder on this computer; a program that enters the agent runs without that."""
        path, folder = self._state()
        start = argv.index("-I") - 1 if "-I" in argv else 0
        return [word.replace(path, folder) for word in ["python3" if "-I" in argv else argv[0], *argv[start + 1 :]]]

    def _state(self) -> tuple[str, str]:
        return self.state(int(self.name.rpartition(".")[2]))


def claim(state: Path, agent: str) -> None:
    """Make a folder the state of an agent, as the script does that a machine runs."""
    (state / ".paddock").mkdir(mode=0o700, exist_ok=True)
    (state / "home").mkdir(exist_ok=True)
    identity = state / ".paddock/identity"
    if not identity.exists():
        identity.write_text(f"version=2\nagent={agent}\nid=1\n")


def identity_of(state: Path) -> str | None:
    """Return the agent that a state belongs to."""
    try:
        lines = (state / ".paddock/identity").read_text().split("\n")
    except FileNotFoundError:
        return None
    return next(line.removeprefix("agent=") for line in lines if line.startswith("agent="))
