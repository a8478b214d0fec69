"""What Paddock asks the program on a machine, and the program's answers, for machines that a test plays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, cast

from paddock.base.process import Pipes, Result
from paddock.channels.onboard import started
from paddock.onboard.program.frozen import encoded

Given = dict[str, Any]  # the fields of a request


def is_asked(argv: Sequence[str]) -> bool:
    """Whether this argv starts the program, whose input has the request."""
    return list(argv) == started()


def asked(stdin: bytes) -> tuple[str, Given]:
    """Return the name of the request in an input of the program, and the fields of the request."""
    for kind, frame in _frames(stdin):
        if kind == b"R":
            request = json.loads(frame)
            return request["name"], request["given"]
    raise ValueError(f"this input has no request: {stdin[:80]!r}")


def elsewhere(stdin: bytes, path: str, folder: str) -> bytes:
    """Return an input of the program whose request is about a folder in place of a path, of the account that asks."""
    moved = {path.encode(): folder.encode(), b'"account": "hermes"': b'"account": ""'}
    return b"".join(
        _frame(kind, reduce(lambda data, each: data.replace(*each), moved.items(), frame) if kind == b"R" else frame)
        for kind, frame in _frames(stdin)
    )


def answer(value: object = None, *, code: int = 0, said: str = "") -> str:
    """Return what the program prints as its answer: a value, or the code of a refusal and the reason for it."""
    return _line({"code": code, "said": said} if code else {"code": 0, "value": encoded(value)})


def saying(line: str) -> str:
    """Return what the program prints before its answer, for a person."""
    return _line({"say": line})


class Played:
    """The program on a machine that a test plays. ``begin`` gets the request, which it may change, and starts it."""

    def __init__(self, begin: Callable[[str, Given], Pipes]) -> None:
        self._begin = begin
        self._begun: Pipes | None = None
        self._modules = self._unsent = b""

    @property
    def pipes(self) -> Pipes:
        """The program as the guest's caller sees it, which asks before it reads."""
        this = cast("Any", self)
        return Pipes(this, this, lambda: self._program.said(), self._end)

    @property
    def _program(self) -> Pipes:
        assert self._begun, "the program on the machine was not asked"
        return self._begun

    def _end(self) -> Result:
        return self._program.end()

    # As its input

    def write(self, data: bytes) -> None:
        self._unsent += data
        while found := _first(self._unsent):
            kind, frame, self._unsent = found
            if kind == b"R":
                request = json.loads(frame)
                self._begun = self._begin(request["name"], request["given"])
                self._begun.sink.write(self._modules)
                frame = json.dumps(request).encode()
            if self._begun:
                self._begun.sink.write(_frame(kind, frame))
            else:
                self._modules += _frame(kind, frame)

    def flush(self) -> None:
        self._program.sink.flush()

    def close(self) -> None:
        self._program.sink.close()

    @property
    def closed(self) -> bool:
        return self._program.sink.closed

    # As its output

    def read(self, size: int = -1) -> bytes:
        return self._program.source.read(size)

    def readline(self, size: int = -1) -> bytes:
        return self._program.source.readline(size)


def _line(told: dict[str, Any]) -> str:
    return f"\0{json.dumps(told)}\n"


def _frame(kind: bytes, data: bytes) -> bytes:
    return b"%s %d\n%s" % (kind, len(data), data)


def _frames(stdin: bytes) -> Iterator[tuple[bytes, bytes]]:
    left = stdin
    while found := _first(left):
        kind, frame, left = found
        yield kind, frame


def _first(stdin: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the kind and the bytes of the first frame, and what follows it. None if it is not complete."""
    header, newline, left = stdin.partition(b"\n")
    if not newline:
        return None
    kind, length = header.split()
    return (kind, left[: int(length)], left[int(length) :]) if len(left) >= int(length) else None
