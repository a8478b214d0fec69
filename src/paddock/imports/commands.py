"""Run programs of the machine, with the rights of an account. Runs on the machine that has an install."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import threading
from contextlib import suppress
from typing import IO, Any

_SECONDS = 240
_MOST = 16 << 20  # bytes of each stream


class Failed(Exception):
    """A program of the machine failed."""


def output(words: list[str], uid: int | None = None) -> str | None:
    """Run a program and return its output, or None if it is missing or fails."""
    try:
        done = _run(words, uid)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def must(words: list[str], uid: int | None = None) -> None:
    """Run a program that has to succeed."""
    try:
        done = _run(words, uid)
    except OSError as error:
        raise Failed(f"{' '.join(words)}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(words)} failed: {done.stderr.strip()[-300:]}")


def systemctl(uid: int | None) -> list[str]:
    """Return the beginning of a command for the systemd of the machine, or of an account."""
    return ["systemctl"] if uid is None else ["systemctl", "--user"]


def _run(words: list[str], uid: int | None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    options: dict[str, Any] = {}
    if uid is not None:
        account = pwd.getpwuid(uid)
        runtime = f"/run/user/{uid}"
        environment.update(HOME=account.pw_dir, XDG_RUNTIME_DIR=runtime)
        environment["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={runtime}/bus"
        if os.geteuid() == 0 and uid != 0:
            options = {"user": uid, "group": account.pw_gid, "extra_groups": []}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd="/", env=environment, start_new_session=True, **pipes, **options) as child:
        timer = threading.Timer(_SECONDS, _kill, [child])
        timer.start()
        try:
            said: list[bytes] = []
            beside = threading.Thread(target=lambda: said.append(_head(child, child.stderr)))
            beside.start()
            printed = _head(child, child.stdout)
            beside.join()
            code = child.wait()
        finally:
            timer.cancel()
    texts = (each.decode(errors="replace") for each in (printed, *said))
    return subprocess.CompletedProcess(words, code, *texts)


def _head(child: subprocess.Popen[bytes], pipe: IO[bytes] | None) -> bytes:
    """Read what a program prints. One that prints too much is killed: what an account says may have no end."""
    data = pipe.read(_MOST + 1) if pipe else b""
    if len(data) > _MOST:
        _kill(child)
    return data[:_MOST]


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
