"""Put a received state in the place of the agent's home, and back. Runs on the machine."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paddock.onboard.files import descended, opened
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.stream.layout import BadStream, Json, matcher, parts_of
from paddock.onboard.stream.receive import MEMORY, ROOM, NoRoom, receive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

_PATIENCE = 60  # seconds to wait for a program of an earlier run, which ends when its connection does
_EXCHANGE = 2  # RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


class CannotRestore(Exception):
    """A restoration cannot go on."""


class Restoration:
    """The restoration of one state."""

    def __init__(self, state: str) -> None:
        self.own = f"{state}/.paddock"
        self.home = f"{state}/home"
        self.incoming = f"{self.own}/incoming"
        self.before = f"{self.own}/before"
        self.discarded = f"{self.own}/discarded"
        self.incoming_aside = f"{self.own}/incoming-aside"
        self.aside = f"{self.own}/set-aside"
        self.note = f"{self.own}/incoming.json"
        self.origin = f"{self.own}/origin.json"

    def receive(self, order: Json) -> Json:
        """Unpack a stream beside the home, and verify it."""
        self.settle()
        if os.path.lexists(self.before):
            raise CannotRestore(f"{self.before} has the state from before an earlier restore; finish that first")
        if os.path.lexists(self.aside):
            raise CannotRestore(f"{self.aside} has a part of the state; run `paddock up` first, which puts it back")
        if "origin" in order:
            self.expect_new(0)
            _write(self.origin, order["origin"])
        try:
            manifest = self._unpacked(order)
        except BaseException:
            self.settle()
            raise
        self._own_top()
        _write(self.note, {"inode": os.stat(self.incoming).st_ino, "undo": False})
        return {key: value for key, value in manifest.items() if key != "entries"}

    def _unpacked(self, order: Json) -> Json:
        """Unpack and verify a stream, set aside what is not for the home, and return the manifest."""
        manifest = receive({**order, "folder": self.incoming}, order["stream"])
        found = {entry["path"] for entry in manifest["entries"]}
        if missing := [path for path in order.get("expects", ()) if path not in found]:
            raise BadStream(f"it lacks {', '.join(missing)}")
        if aside := order.get("aside"):
            set_aside(self.incoming, self.incoming_aside, aside, manifest["entries"])
        return manifest

    def expect_new(self, size: int) -> None:
        """Refuse a state that has files already, or no room for what is to become it."""
        with suppress(FileNotFoundError):
            if os.listdir(self.home):
                origin = _read(self.origin)
                whence = f", which was imported from {origin['source']}" if origin else ""
                raise CannotRestore(f"the agent has a state already{whence}: {self.home} has files")
        there = self.home
        while not os.path.isdir(there):
            there = os.path.dirname(there)
        found = os.statvfs(there)
        room = found.f_bavail * found.f_frsize - ROOM
        if size > room:
            raise CannotRestore(
                f"{size >> 20} MiB are to be imported, and {there} has room for {max(room, 0) >> 20} MiB"
            )

    def _own_top(self) -> None:
        """Give the new home the owner and the mode of the home that it replaces."""
        found = os.stat(self.home)
        if os.geteuid() == 0:
            os.chown(self.incoming, found.st_uid, found.st_gid)
        os.chmod(self.incoming, stat.S_IMODE(found.st_mode))

    def settle(self) -> None:
        """Finish or undo what an interrupted restoration left behind."""
        known = _read(self.note)
        done = known is not None and known["inode"] == os.stat(self.home).st_ino
        if known and known["undo"]:
            if done:
                self._discard(self.before)
        elif done:
            self._complete()
        else:
            self._discard(self.incoming)  # it never was the home
            self._discard(self.incoming_aside)
        shutil.rmtree(self.discarded, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.unlink(self.note)

    def swap(self) -> None:
        """Make the received state the home."""
        known = _read(self.note)
        if known is None or not os.path.isdir(self.incoming):
            raise CannotRestore("there is no received state")
        with self._lease():
            if known["inode"] != os.stat(self.home).st_ino:
                _exchange(self.incoming, self.home)
            self._complete()
            _sync(self.own)
            os.unlink(self.note)

    def _complete(self) -> None:
        """Give what was exchanged the names by which it is known afterwards."""
        for now, then in ((self.incoming, self.before), (self.incoming_aside, self.aside)):
            if os.path.lexists(now):
                os.rename(now, then)
        with suppress(OSError):
            os.rmdir(self.before)  # an agent without files had nothing before that could be kept

    def whole(self) -> list[str]:
        """Put back into the home what was set aside, and return what a person should know."""
        if not os.path.lexists(self.aside):
            return []
        with self._lease():
            put_back(self.aside, self.home)
        return ["what made it act is in its state again"]

    def back(self) -> None:
        """Make what was the home before the home again, and remove the received state."""
        self.settle()
        if not os.path.isdir(self.before):
            raise CannotRestore(f"there is no {self.before}")
        with self._lease():
            _write(self.note, {"inode": os.stat(self.before).st_ino, "undo": True})
            _exchange(self.before, self.home)
            _sync(self.own)
        self.settle()

    def finish(self) -> None:
        """Remove what was the home before."""
        self.settle()
        self._discard(self.before)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other programs away that work on this restoration."""
        own = os.open(self.own, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(own)
            yield
        finally:
            os.close(own)

    def _discard(self, folder: str) -> None:
        """Remove a folder. It gets another name first, so that no half of it is ever taken for a state."""
        shutil.rmtree(self.discarded, ignore_errors=True)  # an earlier removal was interrupted
        if os.path.lexists(folder):
            os.rename(folder, self.discarded)
            shutil.rmtree(self.discarded)

    @contextmanager
    def _lease(self) -> Iterator[None]:
        """Hold the lease: the agent does not run, and cannot start meanwhile."""
        with open(f"{self.own}/lease", "a") as lease:
            try:
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CannotRestore("the agent runs, and its state cannot be replaced") from None
            yield


def _lock(descriptor: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise CannotRestore("another restore of this agent is running") from None
        time.sleep(0.1)


def _exchange(one: str, other: str) -> None:
    """Exchange two names in one step."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        raise CannotRestore(f"{other} cannot be replaced: {os.strerror(ctypes.get_errno())}")


def _write(path: str, data: Json) -> None:
    with open(f"{path}.new", "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def _read(path: str) -> Json | None:
    try:
        with open(path) as file:
            found: Json = json.load(file)
    except FileNotFoundError:
        return None
    return found


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@frozen
class Restore:
    """Carry out one part of a restoration: settle, swap, back, finish or whole. Return what a person should know."""

    state: str
    do: str

    def perform(self, _: Payload) -> list[str]:
        work = Restoration(self.state)
        parts = {
            "settle": work.settle,
            "swap": work.swap,
            "back": work.back,
            "finish": work.finish,
            "whole": work.whole,
        }
        with _refusing(), work.alone():
            return parts[self.do]() or []


@frozen
class ExpectNew:
    """Refuse a state that has files already, or no room for so many bytes."""

    state: str
    size: int

    def perform(self, _: Payload) -> None:
        with _refusing():
            Restoration(self.state).expect_new(self.size)  # there may be no state yet to be alone with


@frozen
class Receive:
    """Unpack a stream, the payload, beside the home, and verify it. Return its manifest without the entries."""

    state: str
    order: dict[str, object]

    def perform(self, payload: Payload) -> Json:
        # A header of a hostile stream may claim to be as large as the memory.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        work = Restoration(self.state)
        with _refusing(), work.alone():
            return work.receive({**self.order, "stream": payload})


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except BadStream as error:
        raise Refusal(f"the stream of the state cannot be used: {error}", FAILED) from None
    except CannotRestore as error:
        raise Refusal(str(error), FAILED) from None
    except (NoRoom, OSError) as error:
        raise Refusal(f"the state cannot be restored: {error}", FAILED) from None


def set_aside(folder: str, aside: str, patterns: list[str], entries: list[Json]) -> None:
    """Move the entries of a new folder that match into another new folder, with their paths.

    A link in place of a folder above a pattern would hide what is behind it from the pattern, so it is refused.
    """
    above = {"/".join(parts[:at]) for parts in map(parts_of, patterns) for at in range(1, len(parts))}
    for entry in entries:
        if entry["type"] == "link" and entry["path"] in above:
            raise BadStream(f"{entry['path']!r} is a link, and a copy of such a state could act")
    wanted = matcher(patterns)
    os.mkdir(aside, 0o700)
    moved: set[str] = set()
    with opened(folder) as source, opened(aside) as target:
        for entry in sorted(entries, key=lambda each: each["path"].count("/")):
            path = entry["path"]
            *folders, name = parts_of(path)
            if wanted.fullmatch(path) and not any("/".join(folders[:at]) in moved for at in range(1, len(folders) + 1)):
                moved.add(path)
                with descended(source, folders) as here, _made(target, folders) as there:
                    os.rename(name, name, src_dir_fd=here, dst_dir_fd=there)


@contextmanager
def _made(top: int, folders: list[str]) -> Iterator[int]:
    """Create folders below another, and open the last one."""
    for at, name in enumerate(folders):
        with descended(top, folders[:at]) as above, suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    with descended(top, folders) as last:
        yield last


def put_back(aside: str, folder: str) -> None:
    """Move everything from one folder into another. What has the same path there is replaced; folders are joined."""
    with opened(aside) as source, opened(folder) as target:
        _join(source, target)
    shutil.rmtree(aside)


def _join(source: int, target: int) -> None:
    for name in os.listdir(source):
        if _is_folder(name, source) and _is_folder(name, target):
            with descended(source, [name]) as here, descended(target, [name]) as there:
                _join(here, there)
        else:
            _remove(name, target)
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)


def _remove(name: str, folder: int) -> None:
    if _is_folder(name, folder):
        shutil.rmtree(f"/proc/self/fd/{folder}/{name}")
    else:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
