"""The subprocess gate: the only module that starts a process and waits for it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Final, Protocol

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret, mask
from paddock.base.text import one_line

PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
Child = subprocess.Popen[bytes]

_MAX_KEPT: Final = 8 << 20  # bytes kept of each stream
_TAIL: Final = 64 << 10  # how many of these bytes come from the end of a longer stream
# A program that prints more than _MAX_KEPT runs on, because killing it could leave its work half done.
# A program that prints more than this is killed.
_MAX_READ: Final = 512 << 20
_CHUNK: Final = 1 << 16
_LARGE_PIPE: Final = 1 << 20  # bytes; with the usual 64 KiB both ends of a stream wait often
_LONGEST_LINE: Final = 64 << 10
_INTERRUPT_GRACE: Final = 0.25  # seconds a child gets to end by itself after Ctrl-C
_DRAINED: Final = 1.0  # seconds for the rest of what an ended program printed


@frozen
class Result:
    """The exit code and output of a finished process."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    cut: bool = False  # whether ``out`` lacks a part of stdout, because there was too much of it

    @property
    def ok(self) -> bool:
        return self.code == 0


class ProgramMissing(PaddockError):
    """A program Paddock needs is not installed."""


class DeadlinePassed(PaddockError):
    """A process did not end before its timeout."""


class OutputTooLarge(PaddockError):
    """A process printed more than Paddock reads."""


class CommandFailed(PaddockError):
    """A process ended with an exit code other than 0."""

    def __init__(self, what: str, result: Result) -> None:
        printed = (result.err.strip() or result.out.strip()).split("\n")[-12:]
        last = "\n".join(one_line(line.rstrip("\r"), 500) for line in printed)
        super().__init__(f"{what} failed with code {result.code}" + (f":\n{last}" if last else ""))
        self.result = result


def attach(argv: Sequence[str]) -> int:
    """Run a trusted program on the user's own terminal until it ends, and return its exit code."""
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
    own_session: bool = False,
) -> Result:
    """Run a program until it ends and return its exit code and output, with secrets masked.

    Output beyond 8 MiB of a stream is cut out of the middle. ``own_session`` runs the program in a new session without
    access to the user's terminal; it is required for every program that may run an agent's code.
    """
    start = time.monotonic()
    listener = _listener.get()
    out, err = _Captured(), _Overheard(listener) if listener else _Captured()
    code = _run_to_end(argv, stdin, deadline, env, out, err, own_session=own_session)
    seconds = time.monotonic() - start
    return Result(tuple(argv), code, mask(out.text()), mask(err.text()), seconds, out.cut > 0)


# Gets each line that programs print to stderr, in the thread that has asked for it.
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def overheard(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass each line that a program prints to stderr to a listener too, as it arrives. Secrets in it are masked."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def is_overheard() -> bool:
    """Whether a listener gets what programs print."""
    return _listener.get() is not None


def tell(line: str) -> None:
    """Pass a line to the listener, if there is one."""
    listener = _listener.get()
    if listener:
        listener(line)


def run_for_secret(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Secret:
    """Run a program and return its stdout as a secret. An error shows only its stderr."""
    start = time.monotonic()
    out, err = _Captured(), _Captured()
    code = _run_to_end(argv, b"", 60.0, env, out, err)
    if out.cut:
        raise OutputTooLarge(f"{argv[0]} printed more than {_MAX_KEPT >> 20} MiB, which is too large for a secret")
    try:
        secret = Secret(out.text(errors="strict"))
    except UnicodeDecodeError:
        raise PaddockError(f"{argv[0]} printed output that is not valid UTF-8 text") from None
    if code != 0:
        raise CommandFailed(str(argv[0]), Result(tuple(argv), code, "", mask(err.text()), time.monotonic() - start))
    return secret


def stream(
    argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None], *, own_session: bool = False
) -> int:
    """Run a program until it ends, pass each line to ``out`` or ``err`` as it arrives, and return the exit code.

    An agent may have written the lines, so ``out`` and ``err`` have to make control characters visible.
    """
    stdout, stderr = _LineByLine(out), _LineByLine(err)
    try:
        return _run_to_end(argv, b"", None, None, stdout, stderr, own_session=own_session)
    except KeyboardInterrupt:
        return 130
    finally:
        stdout.end()
        stderr.end()


@frozen
class Pipes:
    """A running program with its input and output. Whoever uses them has to read and write both ends at once."""

    sink: IO[bytes]
    source: IO[bytes]
    said: Callable[[], str]  # the beginning of its stderr so far
    end: Callable[[], Result]  # closes the input, waits until the program has ended, and returns its result


@contextmanager
def piped(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    own_session: bool = False,
    grace: float = 0,
    deadline: float | None = None,
) -> Iterator[Pipes]:
    """Start a program for a stream that does not fit into memory. It is killed when the context ends.

    With ``grace`` it is interrupted first, and has that many seconds to remove its locks. If it runs beyond the
    deadline, it is ended too, and ``end`` raises ``DeadlinePassed``.
    """
    start = time.monotonic()
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
    with started(argv, own_session=own_session, env=env, pipesize=_LARGE_PIPE, **pipes) as child:
        sink, source, errors = child.stdin, child.stdout, child.stderr
        assert sink is not None and source is not None and errors is not None  # noqa: S101, PT018  all are pipes
        said = _Captured()
        # The program would stop when this pipe is full.
        listening = threading.Thread(target=_drain, args=(errors, said), daemon=True)
        listening.start()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _interrupt(child, grace)
            child.kill()

        timer = threading.Timer(deadline or 0, give_up)
        timer.daemon = True
        if deadline is not None:
            timer.start()

        def end() -> Result:
            with suppress(OSError):
                sink.close()
            code = child.wait()
            listening.join()
            if late.is_set():
                raise DeadlinePassed(f"{argv[0]} did not end within {deadline:.0f} s")
            return Result(tuple(argv), code, "", mask(said.text()), time.monotonic() - start)

        try:
            yield Pipes(sink, source, lambda: said.head[:_CHUNK].decode(errors="replace"), end)
        finally:
            timer.cancel()
            if grace:
                _interrupt(child, grace)
    listening.join(_DRAINED)  # the program has ended; another may keep its pipe open


def _drain(pipe: IO[bytes], sink: _Captured) -> None:
    with suppress(OSError, ValueError):
        while data := os.read(pipe.fileno(), _CHUNK):
            sink.take(data)


class _Sink(Protocol):
    read: int  # bytes received so far

    def take(self, data: bytes) -> None: ...


class _Captured:
    """Keeps the beginning and the end of a stream, and counts the bytes in between."""

    def __init__(self) -> None:
        self.read = 0
        self.head = bytearray()
        self._tail = bytearray()

    def take(self, data: bytes) -> None:
        self.read += len(data)
        space = _MAX_KEPT - _TAIL - len(self.head)
        self.head += data[:space]
        self._tail += data[space:]
        if len(self._tail) > 2 * _TAIL:
            del self._tail[:-_TAIL]

    @property
    def cut(self) -> int:
        """How many bytes of the stream were dropped."""
        return max(self.read - len(self.head) - _TAIL, 0)

    def text(self, errors: str = "replace") -> str:
        if not self.cut:
            return (self.head + self._tail).decode(errors=errors)
        head, tail = self.head.decode(errors="replace"), self._tail[-_TAIL:].decode(errors="replace")
        return f"{head}\n[{self.cut >> 10} KiB of output were cut here]\n{tail}"


class _Overheard(_Captured):
    """A captured stream whose lines are passed on too."""

    def __init__(self, listener: Callable[[str], None]) -> None:
        super().__init__()
        # The mask knows only whole secrets. A line that long may end in the middle of one when it is cut.
        self._lines = _LineByLine(lambda line: listener(mask(line)) if len(line) < _LONGEST_LINE else None)

    def take(self, data: bytes) -> None:
        super().take(data)
        self._lines.take(data)


class _LineByLine:
    """Passes a stream on line by line, with long lines cut."""

    read = 0  # stays 0, so that _MAX_READ does not apply: nothing is kept, and a log may be followed for days

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun = bytearray()
        self._dropped = 0

    def take(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._add(line)
            self._show_line()
        self._add(rest)

    def _add(self, data: bytes) -> None:
        space = _LONGEST_LINE - len(self._begun)
        self._begun += data[:space]
        self._dropped += max(len(data) - space, 0)

    def _show_line(self) -> None:
        cut = f"… ({self._dropped} more bytes of this line were cut)" if self._dropped else ""
        self._show(self._begun.removesuffix(b"\r").decode(errors="replace") + cut)
        self._begun.clear()
        self._dropped = 0

    def end(self) -> None:
        """Show the last line, if the stream ended without a line feed."""
        if self._begun:
            self._show_line()


def _run_to_end(
    argv: Sequence[str],
    stdin: bytes | Path,
    deadline: float | None,
    env: Mapping[str, str] | None,
    out: _Sink,
    err: _Sink,
    *,
    own_session: bool = False,
) -> int:
    with ExitStack() as opened:
        # The child reads a file itself, because the file may not fit into memory.
        try:
            source = opened.enter_context(stdin.open("rb")) if isinstance(stdin, Path) else PIPE
        except OSError as error:
            raise PaddockError(f"the program {argv[0]} cannot be started: {error.strerror}") from None
        pipes = {"stdin": source, "stdout": PIPE, "stderr": PIPE}
        child = opened.enter_context(started(argv, own_session=own_session, env=env, **pipes))
        given = stdin if isinstance(stdin, bytes) else b""
        end = None if deadline is None else time.monotonic() + deadline
        if not _exchange(child, given, {child.stdout: out, child.stderr: err}, end):
            raise DeadlinePassed(f"{argv[0]} did not end within {deadline:.0f} s")
        return child.wait()


@contextmanager
def started(argv: Sequence[str], *, own_session: bool, **options: Any) -> Iterator[Child]:
    """Start a program, and kill it when the context ends; with ``own_session`` its whole process group is killed."""
    try:
        child = subprocess.Popen(list(argv), start_new_session=own_session, **options)
    except FileNotFoundError:
        raise ProgramMissing(f"the program {argv[0]} is not installed") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its arguments are unusable"
        raise PaddockError(f"the program {argv[0]} cannot be started: {reason}") from None
    if own_session:
        _session_leaders.add(child.pid)
    try:
        yield child
    except KeyboardInterrupt:
        # The child got the signal too, from the terminal or from forward_signal: let it end by itself.
        with suppress(subprocess.TimeoutExpired):
            child.wait(_INTERRUPT_GRACE)
        raise
    finally:
        _kill(child, group=own_session)
        _session_leaders.discard(child.pid)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()


def _interrupt(child: Child, grace: float) -> None:
    """Let a program end by itself. Its input stays open: it must not take the interruption for the end of the input."""
    if child.poll() is None:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            child.send_signal(signal.SIGINT)
            child.wait(grace)


def _kill(child: Child, *, group: bool) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL) if group else child.kill()
        child.wait()


# Running children that lead a session of their own. The terminal's signals do not reach them.
_session_leaders: Final[set[int]] = set()


def forward_signal(number: int) -> None:
    """Send a signal to every running program that has a session of its own, whichever thread waits for it."""
    for pid in list(_session_leaders):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def _exchange(child: Child, given: bytes, sinks: Mapping[IO[bytes] | None, _Sink], end: float | None) -> bool:
    """Write the child's input and read its output until it ends; return False when the deadline passes first."""
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
                    if key.data.read > _MAX_READ:
                        raise OutputTooLarge(f"{_name(child)} printed more than {_MAX_READ >> 20} MiB and was killed")
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
        return left[:0]  # the child has closed its input


def _name(child: Child) -> str:
    return str(child.args[0]) if isinstance(child.args, list) else str(child.args)
