"""Run programs of the machine, with the rights of an account. Runs on the machine that has an install."""

from __future__ import annotations

import os
import pwd
import subprocess
from typing import Any

_SECONDS = 240


class Failed(Exception):
    """A program of the machine failed."""


def output(words: list[str], uid: int | None = None) -> str | None:
    """Run a program and return its output, or None if it is missing or fails."""
    try:
        done = _run(words, uid)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def must(words: list[str], uid: int | None = None) -> None:
    """Run a program that has to succeed."""
    try:
        done = _run(words, uid)
    except (OSError, subprocess.TimeoutExpired) as error:
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
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
        cwd="/",
        env=environment,
        **options,
    )
