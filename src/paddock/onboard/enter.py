"""Run a program inside the confinement of an agent: in a unit of its own, with the directives of the agent's unit.

It has two ends. `enter.py MANAGER UNIT ARGV...` runs as root, or as the account that supervises the agent. It starts
the unit, and passes the program and its input and output over a socket. `enter.py inside TOKEN` is the process of the
unit, with the agent's rights: it starts the program, and tells how it ended. A program that ran beside the unit instead
could be overwritten by the agent through /proc, and would then run outside the confinement.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager, suppress

from paddock.onboard.terminal import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SECONDS = 90.0  # for the start of the unit
_ANSWER_SECONDS = 15.0  # from then on
_POLL_SECONDS = 0.05  # how often to check whether it has failed
_ENDED_EARLY, _NOT_FOUND, _NOT_EXECUTABLE, _INTERRUPTED = 1, 127, 126, 130
_TERMINAL = ("TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE")  # what a program of a person gets of its environment


def main() -> None:
    if sys.argv[1] == "inside":
        inside(sys.argv[2])
        return
    manager, unit, *argv = sys.argv[1:]
    if manager == "user":
        os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")

    @contextmanager
    def start(stdin: int, stdout: int, stderr: int, controlling: bool) -> Iterator[Entered]:
        entered = Entered(manager, unit)
        try:
            entered.send(argv, (stdin, stdout, stderr), terminal=controlling)
            yield entered
        finally:
            entered.close()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    try:
        sys.exit(attach(start, terminal=True))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except ConnectionError:  # the agent can end the process of the unit, whose account it has
        sys.exit(f"paddock: {argv[0]} ended before it could be told how")


class Entered:
    """A program in a unit of its own. It ends when the connection to it is closed."""

    def __init__(self, manager: str, unit: str) -> None:
        token = os.urandom(16).hex()
        self.unit = unit.replace("@.", f"@{token}.")
        self.code: int | None = None
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"\0paddock-enter-{token}")
            listening.listen()
            self.connection = self._connection(listening, manager)

    def _connection(self, listening: socket.socket, manager: str) -> socket.socket:
        """Start the unit, and return the connection of its process. Others may connect too, and are refused."""
        words = ["systemctl", *(["--user"] if manager == "user" else []), "start", self.unit]
        end = time.monotonic() + _SECONDS
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, **quiet) as job:
            while time.monotonic() < end:
                if select.select([listening], [], [], _POLL_SECONDS)[0]:
                    found, _ = listening.accept()
                    if self._is_ours(found):
                        return found
                    found.close()
                elif job.returncode is None and job.poll() is not None:
                    if job.returncode:
                        said = job.communicate()[1].decode(errors="replace").strip()
                        sys.exit(f"paddock: a program runs beside the agent only while the agent runs: {said}")
                    end = time.monotonic() + _ANSWER_SECONDS
            job.kill()
        sys.exit(f"paddock: {self.unit} does not answer")

    def _is_ours(self, found: socket.socket) -> bool:
        """Whether the other end is a process of the unit."""
        pid, _, _ = struct.unpack("3i", found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        with suppress(OSError), open(f"/proc/{pid}/cgroup") as file:
            return any(line.rstrip("\n").endswith(f"/{self.unit}") for line in file)
        return False

    def send(self, argv: list[str], streams: tuple[int, int, int], *, terminal: bool) -> None:
        given = {name: os.environ[name] for name in _TERMINAL if name in os.environ}
        data = json.dumps({"argv": argv, "environment": given, "terminal": terminal}).encode("utf-8", "surrogateescape")
        socket.send_fds(self.connection, [b"%10d" % len(data)], streams)
        self.connection.sendall(data)

    def poll(self) -> int | None:
        if self.code is None and select.select([self.connection], [], [], 0)[0]:
            return self.wait()
        return self.code

    def wait(self) -> int:
        if self.code is None:
            said = self.connection.recv(1)
            self.code = said[0] if said else _ENDED_EARLY
        return self.code

    def close(self) -> None:
        self.connection.close()


def inside(token: str) -> None:
    """Run the program that root sends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0paddock-enter-{token}")
    size, streams, _, _ = socket.recv_fds(connection, 10, 3)
    with connection.makefile("rb") as file:
        asked = json.loads(file.read(int(size)))
    child = os.fork()
    if not child:
        become(asked, streams)
    for each in streams:
        os.close(each)
    ended = os.pidfd_open(child)
    ends: list[Any] = [connection, ended]
    select.select(ends, [], [])  # root's end is closed when the person ends it
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGHUP)
    if not select.select([ended], [], [], 1)[0]:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.send(bytes([128 - code if code < 0 else code]))


def become(asked: dict[str, object], streams: list[int]) -> None:
    """Become the program, in a session of its own."""
    argv = list(map(str, asked["argv"]))  # type: ignore[call-overload]
    try:
        os.setsid()
        for number, each in enumerate(streams):
            os.dup2(each, number)
        if asked["terminal"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(ignored, signal.SIG_DFL)
        os.environ.update(asked["environment"])  # type: ignore[call-overload]
        os.execvp(argv[0], argv)  # noqa: S606
    except FileNotFoundError:
        print(f"paddock: there is no program {argv[0]}", file=sys.stderr, flush=True)
        os._exit(_NOT_FOUND)
    except BaseException as error:  # noqa: BLE001  nothing of this child may go on in the parent's code
        print(f"paddock: {argv[0]} cannot be started: {error}", file=sys.stderr, flush=True)
        os._exit(_NOT_EXECUTABLE)
