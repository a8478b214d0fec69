"""``paddock run``: hold the lease and restart the agent's processes until a signal stops it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from paddock.base.errors import PaddockError
from paddock.base.secret import Secret
from paddock.kinds.workload import CLEAN_SIGNALS, Paths, Process
from paddock.runtimes import bundle
from paddock.runtimes.contract import variables
from paddock.runtimes.process.runtime import RUNNING, processes

_LOCK_SECONDS: Final = 2.0
_LOG_END: Final = 4000  # bytes


class _Fatal(Exception):
    """A process ended with a code after which a restart would not help."""


class _Done(Exception):
    """A process ended and is not restarted. The other processes are stopped too."""


class LeaseHeld(PaddockError):
    """Another process holds the lease and may be writing to the state."""


@contextmanager
def lease(state: Path) -> Iterator[int]:
    """Hold the lease, a kernel lock on the state, and yield its file descriptor."""
    with (state / ".paddock/lease").open("ab") as lock:
        if not _locked(lock):
            holder = (state / ".paddock/holder").read_text().strip()
            raise LeaseHeld(f"the state in {state} is held by {holder}", hint="stop that process first")
        since = datetime.now(UTC).strftime("%FT%TZ")
        (state / ".paddock/holder").write_text(f"process {os.getpid()} on {os.uname().nodename} since {since}\n")
        yield lock.fileno()


def _locked(lock: BinaryIO) -> bool:
    """Try to lock for two seconds: a check, or a child that is about to end, may hold the lock for a moment."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        else:
            return True


@dataclass
class _Child:
    process: Process
    running: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0  # when to start it next
    starts: int = 0
    since: float = 0.0


def supervise(paths: Paths, log: Path, reporter: Callable[[str], None]) -> None:
    """Run the agent until SIGINT or SIGTERM, restart processes that end, and return when all have ended."""
    etc = Path(paths.etc)
    stop = _StopSignal()
    with lease(Path(paths.state)) as descriptor, log.open("ab") as output, stop.listening():
        reporter(f"Ctrl-C stops the agent; its log is {log}")
        environment = _environment(etc)
        children = [_Child(process) for process in processes(etc)]
        running = _RunningFile(etc.parent / RUNNING)
        try:
            while not stop.asked:
                for child in children:
                    _tend(child, environment, output.fileno(), descriptor, reporter)
                running.write(children)
                time.sleep(0.1)
        except _Done as done:
            reporter(str(done))
        except _Fatal as fatal:
            last = "\n".join(_end_of(log).split("\n")[-5:])
            raise PaddockError(f"{fatal}; the end of its log:\n{last}", hint=f"the whole log is {log}") from None
        finally:
            _end(children, reporter)
            running.file.unlink(missing_ok=True)


def _end_of(log: Path) -> str:
    """Return the end of a log of any size."""
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _LOG_END, 0))
        return file.read(_LOG_END).decode(errors="replace").rstrip("\n")


class _RunningFile:
    """The file that lists the running processes as ``NAME PID RESTARTS SINCE``. This process holds the lease."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lease = f"lease {os.getpid()} 0 {time.time():.0f}\n"
        self._written = ""

    def write(self, children: list[_Child]) -> None:
        now = self._lease + "".join(
            f"{child.process.name} {child.running.pid if child.running else 0} {child.starts - 1} {child.since:.0f}\n"
            for child in children
        )
        if now != self._written:
            unfinished = self.file.with_suffix(".new")
            unfinished.write_text(now)
            unfinished.replace(self.file)
            self._written = now


class _StopSignal:
    asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _number: int, _frame: object) -> None:
        self.asked = True


def _environment(etc: Path) -> dict[str, Secret]:
    files = (etc.parent / "secrets.env", etc.parent / "generated.env")
    return {name: value for file in files for name, value in bundle.parse(file.read_text()).items()}


def _tend(
    child: _Child,
    secrets: Mapping[str, Secret],
    output: int,
    lease_descriptor: int,
    reporter: Callable[[str], None],
) -> None:
    process = child.process
    if child.running is None:
        if time.monotonic() >= child.start_at:
            child.running = _start(process, secrets, output, lease_descriptor)
            child.starts, child.since = child.starts + 1, time.time()
            reporter(f"{process.name} runs as process {child.running.pid}")
        return
    code = child.running.poll()
    if code is None:
        return
    child.running = None
    if code in process.fatal_exits:
        raise _Fatal(f"{process.name} ended with code {code}, and a restart would not help")
    if not (_restarts(process, code) or code in process.restart_exits):
        raise _Done(f"{process.name} ended with code {code}, and is not restarted")
    reporter(f"{process.name} ended with code {code}; it restarts in {process.restart_seconds:g} s")
    child.start_at = time.monotonic() + process.restart_seconds


def _restarts(process: Process, code: int) -> bool:
    """Return whether a process is started again after this end, as systemd decides. A negative code is a signal."""
    clean = code in process.clean_exits or -code in CLEAN_SIGNALS
    match process.restart:
        case "always":
            return True
        case "on-success":
            return clean
        case "on-failure":
            return not clean
        case "on-abnormal" | "on-abort":
            return code < 0 and not clean
        case _:  # also on-watchdog: no process has a watchdog
            return False


def _start(
    process: Process, secrets: Mapping[str, Secret], output: int, lease_descriptor: int
) -> subprocess.Popen[bytes]:
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TZ", "TMPDIR")},
        **variables(process, os.environ.get("PATH", os.defpath)),
        **{name: value.reveal() for name, value in secrets.items()},
    }
    return subprocess.Popen(
        # When `paddock run` dies, the kernel sends SIGTERM to its children. Until they have ended, their copy of the
        # descriptor holds the lease, so that no second writer starts beside them.
        ["setpriv", "--pdeathsig", "TERM", *process.argv],
        cwd=process.directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(lease_descriptor,),
        umask=0o077,
        start_new_session=True,  # no access to the person's terminal, and its children can be killed with it
    )


def _end(children: list[_Child], reporter: Callable[[str], None]) -> None:
    running = [(child.process, child.running) for child in children if child.running is not None]
    for _, popen in running:
        popen.terminate()
    for process, popen in running:
        try:
            popen.wait(process.stop_seconds)
        except subprocess.TimeoutExpired:
            reporter(f"{process.name} did not stop within {process.stop_seconds} s and is killed")
            popen.kill()
            popen.wait()
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
