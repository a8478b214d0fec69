"""Run programs of the machine.

Root finds them where only root can write, and they get no environment of the person: it may hold secrets.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, MISSING, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_SUCH_PROGRAM = 127
MOST = 16 << 20  # bytes that are kept of an output
_PASSED_ON = ("XDG_RUNTIME_DIR", "TMPDIR", "TZ", "LANG", "TERM", "LOGNAME", "USER", "HOME", "DBUS_SESSION_BUS_ADDRESS")


@frozen
class Done:
    """What a program printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


def is_root() -> bool:
    return os.geteuid() == 0


def search_path() -> str:
    """Return the folders of programs."""
    return SYSTEM_PATH if is_root() else os.environ.get("PATH", SYSTEM_PATH)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of programs, with sentences in English."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed_on, "PATH": search_path(), "LC_ALL": "C.UTF-8", **more}


def found(program: str) -> str | None:
    """Return the path of a program."""
    folders = [""] if "/" in program else [f"{folder}/" for folder in search_path().split(":") if folder]
    paths = (f"{folder}{program}" for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def run(
    argv: Sequence[str],
    *,
    seconds: float = 300,
    shown: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
) -> Done:
    """Run a program to its end. ``shown`` passes on what it prints to stderr."""
    end = time.monotonic() + seconds
    try:
        started = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            env=env or environment(),
            cwd=cwd,
        )
    except FileNotFoundError:
        return Done(NO_SUCH_PROGRAM, "", f"there is no {argv[0]}")
    with started:
        try:
            out, err = _printed(started, end)
            code = started.wait(max(end - time.monotonic(), 0))
        except (TimeoutError, subprocess.TimeoutExpired):
            return Done(FAILED, "", f"{argv[0]} did not end within {seconds:.0f} s")
        finally:
            started.kill()
    return Done(code, out.decode(errors="replace"), err.decode(errors="replace"))


def _printed(started: subprocess.Popen[bytes], end: float) -> tuple[bytes, bytes]:
    """Return the beginning of what a program prints to stdout and stderr. An agent may decide how long it is."""
    kept: dict[Any, bytearray] = {stream: bytearray() for stream in (started.stdout, started.stderr) if stream}
    with selectors.DefaultSelector() as waiting:
        for stream in kept:
            waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(end - time.monotonic(), 0))
            if not ready or time.monotonic() > end:
                raise TimeoutError
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                kept[key.fileobj] += block[: MOST - len(kept[key.fileobj])]
                if not block:
                    waiting.unregister(key.fileobj)
    return bytes(kept.get(started.stdout, b"")), bytes(kept.get(started.stderr, b""))


def must(argv: Sequence[str], *, seconds: float = 300, shown: bool = False) -> str:
    """Run a program that has to succeed, and return what it printed."""
    done = run(argv, seconds=seconds, shown=shown)
    if not done.ok:
        said = "\n".join(done.err.strip().split("\n")[-5:]) or f"{' '.join(argv[:3])} failed with code {done.code}"
        raise Refusal("" if shown else said, MISSING if done.code == NO_SUCH_PROGRAM else FAILED)
    return done.out
