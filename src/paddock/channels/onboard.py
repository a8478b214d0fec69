"""Ask the program on a machine. It is sent with the request: the machine needs Python, and nothing of Paddock."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final, Protocol, TypeVar, overload

from paddock.base import bounded, process
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed, Pipes, ProgramMissing, Result
from paddock.channels import Guest, MachineDiskFull, OutputCut
from paddock.channels.sent import source
from paddock.onboard.program.frozen import Malformed, decoded, encoded
from paddock.onboard.program.serve import VERSION

_PROGRAM: Final = "paddock.onboard.program"
_IMPORTED: Final = re.compile(r"^ *from (paddock\.onboard[\w.]*) import", re.MULTILINE)
_NO_SUCH_PROGRAM: Final = 127
_PYTHON: Final = "python3"
_LONGEST_LINE: Final = 1 << 20
_MARK: Final = "\0"  # begins each line of an answer; a login shell may print text before it, which is ignored

T = TypeVar("T")


class Request(Protocol):
    """A request to the program on a machine: a frozen class of ``paddock.onboard``."""

    def perform(self, payload: Any, /) -> Any: ...


class NoPython(PaddockError):
    """The machine has no Python, which the program needs."""

    def __init__(self, machine: str) -> None:
        super().__init__(f"{machine} has no python3", hint="install it there, or write packages: [python3]")


@frozen
class Answer:
    """What the program has answered."""

    result: Result  # with the exit code that the answer stands for, and the reason as its stderr
    value: Any
    said: Sequence[str]  # lines for a person


@overload
def ask(
    guest: Guest, what: str, request: Request, payload: bytes = b"", *, deadline: float = 60.0, python: str = ...
) -> Any: ...


@overload
def ask(
    guest: Guest,
    what: str,
    request: Request,
    payload: bytes = b"",
    *,
    deadline: float = 60.0,
    python: str = ...,
    into: type[T],
) -> T: ...


def ask(
    guest: Guest,
    what: str,
    request: Request,
    payload: bytes = b"",
    *,
    deadline: float = 60.0,
    python: str = _PYTHON,
    into: Any = None,
) -> Any:
    """Make a request that must succeed, and return the answer, as an instance of ``into`` if that is given."""
    process.tell(what)
    answer = tried(guest, request, payload, deadline=deadline, python=python)
    if not answer.result.ok and "no space left on device" in answer.result.err.lower():
        raise MachineDiskFull(what, guest.name)
    if not answer.result.ok:
        raise CommandFailed(f"{what} on {guest.name}", answer.result)
    if into is None:
        return answer.value
    try:
        return decoded(into, answer.value)
    except (Malformed, TypeError, ValueError) as error:
        raise PaddockError(f"{what} on {guest.name}: the answer cannot be used: {error}") from None


def tried(
    guest: Guest, request: Request, payload: bytes = b"", *, deadline: float = 60.0, python: str = _PYTHON
) -> Answer:
    """Make a request, and return its answer, whatever it is."""
    from paddock.channels.connection import connected

    if python == _PYTHON and (connection := connected(guest)):
        return connection.ask(request, payload, deadline)
    argv, stdin = sent(request, payload, python)
    try:
        result = guest.run(argv, stdin=stdin, deadline=deadline)
    except ProgramMissing:
        raise NoPython(guest.name) from None
    return answer_of(result, guest.name)


def answer_of(result: Result, machine: str) -> Answer:
    """Return the answer that a run of the program has printed."""
    said, value = [], None
    for line in result.out.split(_MARK)[1:]:
        try:
            told = bounded.parsed(line)
            code, why = int(told.get("code", 0)), str(told.get("said", ""))
        except (ValueError, TypeError, AttributeError):
            break
        if "say" in told:
            said.append(str(told["say"]))
            continue
        return Answer(_as_result(result, code, why), told.get("value"), said)
    if result.code == _NO_SUCH_PROGRAM:
        raise NoPython(machine)
    if result.cut:
        raise OutputCut("the program", machine)
    if result.ok:
        raise PaddockError(
            f"the answer of {machine} is incomplete: {result.out[-200:]!r}",
            hint="run the command again; if that does not help, check what root's login shell prints there",
        )
    return Answer(result, value, said)


def _as_result(result: Result, code: int, why: str) -> Result:
    return Result(("onboard",), code, "", why or result.err, result.seconds)


def begun(pipes: Pipes, request: Request) -> Answer:
    """Make a request over a connection that stays open, and return the first line that the program says."""
    with suppress(OSError):  # a program that has ended says why
        send(pipes, request)
    line = b""
    while _MARK.encode() not in line:
        line = pipes.source.readline(_LONGEST_LINE)
        if not line:
            return Answer(pipes.end(), None, ())
    try:
        said = told(line)
    except (ValueError, TypeError):
        raise PaddockError(f"the answer is incomplete: {line[-200:]!r}") from None
    if said is not None:
        return Answer(Result(("onboard",), 0, "", "", 0), None, [str(said)])
    return answer_of(replace(pipes.end(), out=line.decode(errors="replace")), "the machine")


def send(pipes: Pipes, request: Request) -> None:
    """Make a request over a connection. What follows it is sent with ``framed_chunk``."""
    pipes.sink.write(program_for(type(request).__module__) + framed(request))
    pipes.sink.flush()


def told(line: bytes) -> Any:
    """Return what the program says in a line before its answer; None if the line is the answer."""
    return dict(bounded.parsed(line.partition(_MARK.encode())[2])).get("say")


@contextmanager
def streaming(guest: Guest, request: Request) -> Iterator[Pipes]:
    """Make a request whose answer is a stream."""
    with guest.piped(started()) as pipes:
        send(pipes, request)
        pipes.sink.write(framed_payload(b""))
        pipes.sink.close()
        yield pipes


def sent(request: Request, payload: bytes = b"", python: str = _PYTHON) -> tuple[list[str], bytes]:
    """Return the argv that starts the program, and an input with one request."""
    return started(python), program_for(type(request).__module__) + framed(request) + framed_payload(payload)


def started(python: str = _PYTHON) -> list[str]:
    """Return the argv that starts the program."""
    return [python, "-I", "-S", "-c", f"{source(f'{_PROGRAM}.loader')}main()"]


def framed(request: Request) -> bytes:
    """Return a request in the form of the program's input."""
    cls = type(request)
    asked = {"version": VERSION, "module": cls.__module__, "name": cls.__name__, "given": encoded(request)}
    data = json.dumps(asked).encode()
    return b"R %d\n%s" % (len(data), data)


def framed_payload(payload: bytes) -> bytes:
    """Return the bytes that follow a request, with their end."""
    return (framed_chunk(payload) if payload else b"") + b"P 0\n"


def framed_chunk(data: bytes) -> bytes:
    """Return a part of the bytes that follow a request."""
    return b"P %d\n%s" % (len(data), data)


def program_for(module: str) -> bytes:
    """Return the modules that a request needs, in the form of the program's input."""
    return module_frame(needed(module))


@cache
def module_frame(modules: frozenset[str]) -> bytes:
    """Return modules in the form of the program's input; nothing if there are none."""
    if not modules:
        return b""
    data = zlib.compress(json.dumps({name: source(name) for name in sorted(modules)}).encode())
    return b"M %d\n%s" % (len(data), data)


@cache
def needed(module: str) -> frozenset[str]:
    """Return the modules of the program that one needs, with itself."""
    found: set[str] = set()
    left = [module, f"{_PROGRAM}.serve"]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _IMPORTED.findall(source(name))
    return frozenset(found)
