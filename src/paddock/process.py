"""The subprocess gate: the only place that starts a process and waits for it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from paddock.errors import PaddockError
from paddock.secret import Secret, mask
from paddock.visible import one_line

PIPE: Final = subprocess.PIPE
NOTHING: Final = subprocess.DEVNULL
Child = subprocess.Popen[bytes]

_KEPT: Final = 8 << 20  # bytes of each stream that are kept
_TAIL: Final = 64 << 10  # of these, the bytes that are kept of a longer stream's end
# A program that says more is read on, because what it does may be half done. No honest one says as much as this.
_READ: Final = 512 << 20
_CHUNK: Final = 1 << 16
_LONGEST_LINE: Final = 64 << 10
_MOMENT: Final = 0.25  # seconds that a child has to end in when we are interrupted


@dataclass(frozen=True)
class Result:
    """What a finished process said."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    cut: bool = False  # it said more on stdout than is in ``out``

    @property
    def ok(self) -> bool:
        return self.code == 0


class ProgramMissing(PaddockError):
    """A program Paddock needs is not installed."""


class DeadlinePassed(PaddockError):
    """A process took longer than it may."""


class TooMuchSaid(PaddockError):
    """A process said more than anybody reads."""


class CommandFailed(PaddockError):
    """A process ended with a code other than 0."""

    def __init__(self, what: str, result: Result) -> None:
        said = (result.err.strip() or result.out.strip()).split("\n")[-12:]
        last = "\n".join(one_line(line.rstrip("\r"), 500) for line in said)
        super().__init__(f"{what} failed with code {result.code}" + (f":\n{last}" if last else ""))
        self.result = result


def attach(argv: Sequence[str]) -> int:
    """Run a program of ours on the person's own terminal, until it ends; returns its exit code."""
    try:
        return subprocess.run(list(argv), check=False).returncode
    except FileNotFoundError:
        raise ProgramMissing(f"the program {argv[0]} is not installed") from None
    except KeyboardInterrupt:
        return 130


def run(
    argv: Sequence[str],
    *,
    stdin: bytes | Path = b"",
    deadline: float = 60.0,
    env: Mapping[str, str] | None = None,
    apart: bool = False,
) -> Result:
    """Run a program to its end and return what it said, with secrets masked and no more than is reasonable.

    ``apart`` runs it in a session of its own, out of reach of the person's terminal: for all that may run an agent.
    """
    start = time.monotonic()
    out, err = _Kept(), _Kept()
    code = _finished(argv, stdin, deadline, env, out, err, apart=apart)
    seconds = time.monotonic() - start
    return Result(tuple(argv), code, mask(out.text()), mask(err.text()), seconds, out.cut > 0)


def run_for_secret(argv: Sequence[str], *, deadline: float = 60.0) -> Secret:
    """Run a program and return what it printed as a secret; only its complaints are ever shown."""
    start = time.monotonic()
    out, err = _Kept(), _Kept()
    code = _finished(argv, b"", deadline, None, out, err)
    if out.cut:
        raise TooMuchSaid(f"{argv[0]} printed more than {_KEPT >> 20} MiB, which is no secret")
    try:
        secret = Secret(out.text(errors="strict"))
    except UnicodeDecodeError:
        raise PaddockError(f"{argv[0]} printed something that is not a text in UTF-8") from None
    if code != 0:
        raise CommandFailed(str(argv[0]), Result(tuple(argv), code, "", mask(err.text()), time.monotonic() - start))
    return secret


def stream(argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None], *, apart: bool = False) -> int:
    """Run a program until it ends and hand on each line as it comes; returns the exit code.

    What is handed on is text, for a stream that makes control characters visible: an agent may have written it.
    """
    said, complained = _Lines(out), _Lines(err)
    try:
        return _finished(argv, b"", None, None, said, complained, apart=apart)
    except KeyboardInterrupt:
        return 130
    finally:
        said.end()
        complained.end()


class _Sink(Protocol):
    read: int  # how much has come

    def take(self, data: bytes) -> None: ...


class _Kept:
    """The beginning of a stream, and if there was more, how much, and its end."""

    def __init__(self) -> None:
        self.read = 0
        self.head = bytearray()
        self._tail = bytearray()

    def take(self, data: bytes) -> None:
        self.read += len(data)
        room = _KEPT - _TAIL - len(self.head)
        self.head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * _TAIL:
            del self._tail[:-_TAIL]

    @property
    def cut(self) -> int:
        """How many bytes are in neither part."""
        return max(self.read - len(self.head) - _TAIL, 0)

    def text(self, errors: str = "replace") -> str:
        if not self.cut:
            return (self.head + self._tail).decode(errors=errors)
        head, tail = self.head.decode(errors="replace"), self._tail[-_TAIL:].decode(errors="replace")
        return f"{head}\n[{self.cut >> 10} KiB of output were cut here]\n{tail}"


class _Lines:
    """Hands on a stream line by line; of a line that is very long only the beginning."""

    read = 0  # all of it is shown and none kept: a log may be followed for days

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun = bytearray()
        self._dropped = 0

    def take(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._add(line)
            self._hand_on()
        self._add(rest)

    def _add(self, data: bytes) -> None:
        room = _LONGEST_LINE - len(self._begun)
        self._begun += data[:room]
        self._dropped += max(len(data) - room, 0)

    def _hand_on(self) -> None:
        cut = f"… ({self._dropped} more bytes of this line were cut)" if self._dropped else ""
        self._show(self._begun.removesuffix(b"\r").decode(errors="replace") + cut)
        self._begun.clear()
        self._dropped = 0

    def end(self) -> None:
        """The stream has ended, perhaps within a line."""
        if self._begun:
            self._hand_on()


def _finished(
    argv: Sequence[str],
    stdin: bytes | Path,
    deadline: float | None,
    env: Mapping[str, str] | None,
    out: _Sink,
    err: _Sink,
    *,
    apart: bool = False,
) -> int:
    with ExitStack() as opened:
        # A file need not fit into memory.
        try:
            source = opened.enter_context(stdin.open("rb")) if isinstance(stdin, Path) else PIPE
        except OSError as error:
            raise PaddockError(f"the program {argv[0]} cannot be started: {error.strerror}") from None
        pipes = {"stdin": source, "stdout": PIPE, "stderr": PIPE}
        child = opened.enter_context(started(argv, apart=apart, env=env, **pipes))
        given = stdin if isinstance(stdin, bytes) else b""
        end = None if deadline is None else time.monotonic() + deadline
        if not _exchange(child, given, {child.stdout: out, child.stderr: err}, end):
            raise DeadlinePassed(f"{argv[0]} did not end within {deadline:.0f} s")
        return child.wait()


@contextmanager
def started(argv: Sequence[str], *, apart: bool, **options: Any) -> Iterator[Child]:
    """A program that runs; if it still does when this is left, it is ended, and if ``apart`` its whole group is."""
    try:
        child = subprocess.Popen(list(argv), start_new_session=apart, **options)
    except FileNotFoundError:
        raise ProgramMissing(f"the program {argv[0]} is not installed") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its arguments are unusable"
        raise PaddockError(f"the program {argv[0]} cannot be started: {reason}") from None
    if apart:
        _apart.add(child.pid)
    try:
        yield child
    except KeyboardInterrupt:
        # One on our terminal got Ctrl-C as we did, and one apart through pass_on; it has a moment to end by itself.
        with suppress(subprocess.TimeoutExpired):
            child.wait(_MOMENT)
        raise
    finally:
        _end(child, apart=apart)
        _apart.discard(child.pid)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()


def _end(child: Child, *, apart: bool) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL) if apart else child.kill()
        child.wait()


# The terminal's signals reach only our own session. These are the leaders of others.
_apart: Final[set[int]] = set()


def pass_on(number: int) -> None:
    """Send a signal to every program that runs apart, whichever thread waits for it."""
    for pid in list(_apart):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def _exchange(child: Child, given: bytes, sinks: Mapping[IO[bytes] | None, _Sink], end: float | None) -> bool:
    """Give the child its input and take what it says until it says no more; False when the time is up first."""
    left = memoryview(given)
    with selectors.DefaultSelector() as ready:
        if child.stdin:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        for stream_, sink in sinks.items():
            assert stream_ is not None  # noqa: S101  all of them are pipes
            ready.register(stream_, selectors.EVENT_READ, sink)
        while ready.get_map():
            if end is not None and time.monotonic() > end:
                return False
            for key, _ in ready.select(None if end is None else max(end - time.monotonic(), 0)):
                if key.fileobj is child.stdin:
                    left = _feed(key.fd, left)
                    done = not left
                else:
                    data = os.read(key.fd, _CHUNK)
                    key.data.take(data)
                    if key.data.read > _READ:
                        raise TooMuchSaid(f"{_name(child)} said more than {_READ >> 20} MiB and was ended")
                    done = not data
                if done:
                    ready.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
        if end is None:
            return True
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(end - time.monotonic(), 0))
        return child.poll() is not None


def _feed(pipe: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(pipe, left[:_CHUNK]) :] if left else left
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]  # it does not want the rest


def _name(child: Child) -> str:
    return str(child.args[0]) if isinstance(child.args, list) else str(child.args)
