"""Requests to the API of an agent, over one connection to its machine that stays open."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from typing import Any, Final

from paddock.base import bounded
from paddock.base.errors import PaddockError
from paddock.base.process import Pipes
from paddock.base.text import one_line
from paddock.channels import Guest, Unreachable
from paddock.channels.onboard import framed_chunk, send, started, told
from paddock.core.ask import keys
from paddock.kinds.workload import Answer, Request
from paddock.onboard.relay import Relay
from paddock.runtimes.contract import Runtime

_LONGEST_LINE: Final = 16 << 20  # bytes that the relay prints for the longest line or body
_LONGEST_ANSWER: Final = 256 << 20  # bytes of all parts; those that nobody has read yet are kept
_GRACE: Final = 20.0  # seconds for the machine, beyond those of a request

Part = dict[str, Any]
Parts = queue.SimpleQueue[Part | None]  # a signal handler may put something into it


class Channel:
    """Makes requests on the machine. Answers arrive in a thread, so that several requests can be open at once."""

    def __init__(self, pipes: Pipes, runtime: Runtime, machine: str) -> None:
        self._pipes = pipes
        self._keys = keys(runtime)
        self._machine = machine
        self._ids = count()
        self._open: dict[int, Parts] = {}
        self._lengths: dict[int, int] = {}
        self._lost = False
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, request: Request) -> Answer:
        """Make a request and return its answer."""
        parts = self.stream(request, stream=False)
        try:
            part = parts.get(timeout=request.seconds + _GRACE)
        except queue.Empty:
            raise Unreachable(f"{self._machine} does not answer any more") from None
        found = self.checked(part)
        return Answer(found["status"], found["body"])

    def stream(self, request: Request, *, stream: bool = True) -> Parts:
        """Make a request and return where the parts of its answer arrive; None means that the connection is lost."""
        number, parts = next(self._ids), Parts()
        with self._lock:
            self._open[number] = parts
            if self._lost:
                parts.put(None)
        question = {**asdict(request), "id": number, "stream": stream, **self._keys}
        with suppress(OSError):  # the listening thread notices it too
            self._pipes.sink.write(framed_chunk(json.dumps(question).encode()))
            self._pipes.sink.flush()
        return parts

    def checked(self, part: Part | None) -> Part:
        """Return a part of an answer; an error if there is none."""
        if part is None:
            self._pipes.end()  # raises what ssh says, if it is ssh that failed
            raise Unreachable(f"the connection to {self._machine} was lost: {one_line(self._pipes.said()) or '-'}")
        if "refused" in part:
            raise PaddockError(f"the agent on {self._machine} does not answer: {one_line(str(part['refused']))}")
        return part

    def _listen(self) -> None:
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):  # closed, or not from the relay
            while line := self._pipes.source.readline(_LONGEST_LINE):
                part = told(line)
                number = part["id"]
                with self._lock:
                    parts = self._open.get(number)
                    length = self._lengths[number] = self._lengths.get(number, 0) + len(line) if parts else 0
                    if length > _LONGEST_ANSWER:
                        part = {"refused": f"its answer is longer than {bounded.in_words(_LONGEST_ANSWER)}"}
                    if part.get("end") or "refused" in part:
                        self._open.pop(number, None)
                        self._lengths.pop(number, None)
                if parts:
                    parts.put(part)
        with self._lock:
            self._lost = True
            for parts in self._open.values():
                parts.put(None)


@contextmanager
def channel(guest: Guest, runtime: Runtime) -> Iterator[Channel]:
    """Open a channel to the API of an agent. Its key is read on the machine and stays there."""
    with guest.piped(started()) as pipes:
        send(pipes, Relay())
        yield Channel(pipes, runtime, guest.name)
