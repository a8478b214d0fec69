"""A connection to an agent's machine that opens while Paddock still reads the place.

Connecting takes a quarter of the time of a run with nothing to do, and the machine nearly always is where it was last
time. So the cache has how each machine was reached. That is a guess: the connection is used only if the place then
names the same address and the same host key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from paddock.errors import PaddockError
from paddock.guests import Guest
from paddock.guests.shared import SharedConnection
from paddock.guests.ssh import SshGuest, cache_folder, write_if_changed

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
