"""One program on a machine for all requests of a run: it starts once, and ends with its connection."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from paddock.base.process import DeadlinePassed, Result, is_overheard
from paddock.base.secret import mask
from paddock.channels import Guest, OutputCut
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import Answer, Request, answer_of, framed, framed_payload, module_frame, needed, started
from paddock.channels.ssh import SshGuest

_LONGEST_LINE: Final = 16 << 20
_ENDING: Final = 5.0  # seconds
_LONGEST_ANSWER: Final = 64 << 20  # bytes of all its lines


class Connection:
    """The program on a machine, started once. One thread asks it, one request after the other."""

    def __init__(self, guest: Guest) -> None:
        self._machine = guest.name
        self._opened = ExitStack()
        self._pipes = self._opened.enter_context(guest.piped(started()))
        self._has: frozenset[str] = frozenset()  # the modules that were sent
        self._lines: queue.Queue[str | None] = queue.Queue(1)  # what nobody reads waits in the pipe
        self.is_open = True
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def ask(self, request: Request, payload: bytes, deadline: float) -> Answer:
        """Make a request, and return its answer. One that is given up ends the program, which would still answer it."""
        try:
            return self._asked(request, payload, deadline)
        except BaseException:
            self.close()
            raise

    def _asked(self, request: Request, payload: bytes, deadline: float) -> Answer:
        modules = needed(type(request).__module__) - self._has
        self._has |= modules
        before, begun = len(self._pipes.said()), time.monotonic()
        with suppress(OSError):  # a lost connection is noticed below
            self._pipes.sink.write(module_frame(modules) + framed(request) + framed_payload(payload))
            self._pipes.sink.flush()
        printed = ""
        while True:
            try:
                line = self._lines.get(timeout=max(begun + deadline - time.monotonic(), 0))
            except queue.Empty:
                raise DeadlinePassed(f"the program on {self._machine} did not answer within {deadline:.0f} s") from None
            if line is None:
                self.is_open = False
                return answer_of(self._pipes.end(), self._machine)
            printed += line
            if len(printed) > _LONGEST_ANSWER:
                raise OutputCut("the program", self._machine)
            if '"code":' in line:
                said = mask(self._pipes.said()[before:])
                return answer_of(Result(("onboard",), 0, mask(printed), said, time.monotonic() - begun), self._machine)

    def close(self) -> None:
        """End the program."""
        self.is_open = False
        self._opened.close()
        end = time.monotonic() + _ENDING
        while self._listening.is_alive() and time.monotonic() < end:  # it may wait until somebody reads its last lines
            with suppress(queue.Empty):
                self._lines.get(timeout=0.05)

    def _listen(self) -> None:
        with suppress(OSError, ValueError):  # closed
            while line := self._pipes.source.readline(_LONGEST_LINE):
                self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)


_connections: dict[tuple[int, Guest], Connection] = {}
_wanted: Final[list[bool]] = []


@contextmanager
def connections() -> Iterator[None]:
    """Keep the program on each machine for all requests that are made within the context."""
    _wanted.append(True)
    try:
        yield
    finally:
        _wanted.pop()
        end_connections()
        while _connections and not _wanted:  # of threads that have ended
            _connections.popitem()[1].close()


def connected(guest: Guest) -> Connection | None:
    """Return the connection to a machine for this thread; None if each request starts a program of its own.

    A person sees what a long request prints, which has therefore a connection of its own.
    """
    if not _wanted or is_overheard() or type(guest) not in (SshGuest, LocalGuest):
        return None
    key = threading.get_ident(), guest
    found = _connections.get(key)
    if found is None or not found.is_open:
        found = _connections[key] = Connection(guest)
    return found


def end_connections() -> None:
    """End the connections of this thread: a machine is about to change."""
    for key in [key for key in list(_connections) if key[0] == threading.get_ident()]:
        _connections.pop(key).close()
