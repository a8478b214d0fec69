"""Put a received state in the place of the agent's home, and back. Runs on the machine.

The argument is JSON: `do` and `state`, and for `receive` what `paddock.stream.receive` needs. The received state is
unpacked to `.paddock/incoming`, where only root can enter. `swap` exchanges it with the home in one step of the kernel,
so that at every moment there is one complete home. What was the home before stays in `.paddock/before` until `finish`.
`.paddock/incoming.json` has the inode of the folder that is to become the home: whether it is the home already shows
what an interrupted restoration still has to do.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from paddock.stream.layout import BadStream, Json
from paddock.stream.receive import MEMORY, NoRoom, receive

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
        self.note = f"{self.own}/incoming.json"

    def receive(self, order: Json) -> Json:
        """Unpack a stream beside the home, and verify it."""
        self.settle()
        if os.path.lexists(self.before):
            raise CannotRestore(f"{self.before} has the state from before an earlier restore; finish that first")
        try:
            manifest = receive({**order, "folder": self.incoming}, sys.stdin.buffer)
        except BaseException:
            self._discard(self.incoming)
            raise
        self._own_top()
        _write(self.note, {"inode": os.stat(self.incoming).st_ino, "undo": False})
        return {key: value for key, value in manifest.items() if key != "entries"}

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
        elif done and os.path.lexists(self.incoming):
            os.rename(self.incoming, self.before)
        else:
            self._discard(self.incoming)  # it never was the home
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
            os.rename(self.incoming, self.before)
            _sync(self.own)
            os.unlink(self.note)

    def back(self) -> None:
        """Make what was the home before the home again, and remove the received state."""
        if not os.path.isdir(self.before):
            raise CannotRestore(f"there is no {self.before}")
        with self._lease():
            _write(self.note, {"inode": os.stat(self.before).st_ino, "undo": True})
            _exchange(self.before, self.home)
            _sync(self.own)
        self.settle()

    def finish(self) -> None:
        """Remove what was the home before."""
        self._discard(self.before)

    def _discard(self, folder: str) -> None:
        """Remove a folder. It gets another name first, so that no half of it is ever taken for a state."""
        if os.path.lexists(self.discarded):
            shutil.rmtree(self.discarded)  # an earlier removal was interrupted
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


def main() -> None:
    # A header of a hostile stream may claim to be as large as the memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    order = json.loads(sys.argv[1])
    work = Restoration(order["state"])
    simple: dict[str, Callable[[], None]] = {
        "settle": work.settle,
        "swap": work.swap,
        "back": work.back,
        "finish": work.finish,
    }
    try:
        if order["do"] == "receive":
            json.dump(work.receive(order), sys.stdout)
        else:
            simple[order["do"]]()
    except BadStream as error:
        sys.exit(f"the backup cannot be used: {error}")
    except CannotRestore as error:
        sys.exit(str(error))
    except (NoRoom, OSError) as error:
        sys.exit(f"the state cannot be restored: {error}")
