"""One ssh connection for several commands on a machine, opened while Paddock still reads the place."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Self

from paddock.base import process
from paddock.base.errors import PaddockError
from paddock.channels import Guest
from paddock.channels.ssh import SshGuest, cache_folder, write_if_changed

_CONNECT_SECONDS: Final = 15.0


class SharedConnection:
    """A connection that commands of this process share. When it has ended, each command connects by itself.

    It is no connection of the person's own ssh client: its socket is in a new folder that only this account can enter.
    It ends with this process, also if that is killed: its program on the machine ends when its input does.
    """

    def __init__(self, guest: SshGuest) -> None:
        self._opened = ExitStack()
        folder = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="paddock-"))
        self.control = Path(folder) / "control"
        # In another session: Ctrl-C ends the commands, and the end of the run ends this connection.
        self._child = self._opened.enter_context(
            process.started(
                guest.sharing(self.control, ["cat"]),
                own_session=True,
                stdin=process.PIPE,
                stdout=process.DEVNULL,
                stderr=process.DEVNULL,
            )
        )

    @classmethod
    def opened(cls, guest: SshGuest) -> Self:
        """Return a connection that is ready. If there is none, commands connect by themselves and say why they fail."""
        made = cls(guest)
        made.ready()
        return made

    def ready(self) -> Path:
        """Wait until the connection is open, or has failed; return its socket."""
        end = time.monotonic() + _CONNECT_SECONDS
        while not self.control.exists() and self._child.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        return self.control

    @property
    def is_open(self) -> bool:
        """Whether commands can use the connection."""
        return self.control.exists() and self._child.poll() is None

    def close(self) -> None:
        """End the connection."""
        self._opened.close()


_begun: Final[dict[SshGuest, SharedConnection]] = {}  # that no command uses yet


@contextmanager
def connecting(agent: str) -> Iterator[None]:
    """Connect to where an agent's machine was last time, if that is known. The connection ends with the context."""
    guest = _remembered(agent)
    with ExitStack() as opened:
        if guest is not None:
            # A command that finds no connection makes its own, and says what is wrong.
            with suppress(OSError, PaddockError):
                _begun[guest] = SharedConnection(guest)
                opened.callback(_begun[guest].close)
        opened.callback(end)
        yield


def through(guest: SshGuest) -> SshGuest:
    """Return the guest with the connection that was begun to it, if there is one.

    Only the first caller gets it: until the next one, the machine may have been restarted.
    """
    if guest not in _begun:
        return guest
    return replace(guest, control=_begun.pop(guest).ready())


def end() -> None:
    """Offer no connection from now on: the machine is about to change."""
    _begun.clear()


def remember(agent: str, guest: Guest | None) -> None:
    """Record how an agent's machine is reached over ssh; None if there is no machine."""
    path = _path(agent)
    with suppress(OSError):  # a guess is not worth an error
        if guest is None:
            path.unlink(missing_ok=True)
        elif isinstance(guest, SshGuest):
            write_if_changed(path, json.dumps(asdict(replace(guest, control=None)), default=str))


def _remembered(agent: str) -> SshGuest | None:
    try:
        found = json.loads(_path(agent).read_text())
        key = Path(found.pop("key"))
        return SshGuest(**{**found, "key": key, "host_keys": tuple(found["host_keys"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _path(agent: str) -> Path:
    return cache_folder("reached") / hashlib.sha256(agent.encode()).hexdigest()[:16]
