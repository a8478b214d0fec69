"""The systemd unit that supervises a container and requires the lease."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from typing import Any, Final

from paddock.channels.sent import source
from paddock.kinds.workload import CLEAN_SIGNALS, Command, Health, OpenPort, Page, Process
from paddock.runtimes.engine.dialect import Dialect

_ENDED: Final = 143  # the exit code after SIGTERM
_REFUSED: Final = 78  # the exit code of `start` if a restart would not help


def unit(
    agent: str,
    engine: Dialect,
    required: Sequence[str],
    etc: str,
    search: str,
    processes: Sequence[Process],
) -> str:
    """Return the unit of a container with these processes.

    ``required`` are units that must run while it runs, ``etc`` is the folder of the current bundle, ``search`` is the
    line that says where programs are.
    """
    first, bound = processes[0], " ".join(required)
    clean = sorted({_ENDED, *(code for process in processes for code in process.clean_exits)})
    fatal = sorted({_REFUSED, *(code for process in processes for code in process.fatal_exits)})
    restart, crashes = _after_crashes(first.restart)
    again = sorted({*crashes, *(code for process in processes for code in process.restart_exits)})
    daemon = f" {engine.service}" if engine.service else ""
    return f"""\
[Unit]
Description=Container of {agent}
BindsTo={bound}
After={bound} network-online.target{daemon}
Wants=network-online.target{daemon}
StartLimitIntervalSec=0

[Service]
Type=exec
{search}ExecStart=/bin/sh {etc}/attach
SyslogIdentifier={engine.program}
ExecStop=/bin/sh {etc}/halt $MAINPID
# However this unit ends, no container keeps running without a lease.
ExecStopPost=-/bin/sh {etc}/halt
Restart={restart}
RestartSec={first.restart_seconds:g}
SuccessExitStatus={" ".join(map(str, clean))}
RestartPreventExitStatus={" ".join(map(str, fatal))}
RestartForceExitStatus={" ".join(map(str, again))}
KillMode=mixed
TimeoutStopSec={stop_seconds(processes) + 15}
"""


def _after_crashes(restart: str) -> tuple[str, Sequence[int]]:
    """Return the value of Restart=, and exit codes that force a restart.

    The engine's program tells systemd of a signal by an exit code above 128, which systemd does not take for a signal.
    """
    if restart not in ("on-abnormal", "on-abort"):
        return restart, ()
    return "no", [128 + number for number in signal.valid_signals() if number < 32 and number not in CLEAN_SIGNALS]


def stop_seconds(processes: Sequence[Process]) -> int:
    """Return how many seconds a container with these processes may take to stop."""
    return max(process.stop_seconds for process in processes)


_TIMES: Final = {"interval": "30s", "timeout": "10s", "start_period": "60s"}
_PROGRAM: Final = "loopback.py"


def options(path: str) -> list[str]:
    """Return the engine's options that set the script at this path as health command."""
    times = [word for name, time in _TIMES.items() for word in (f"--health-{name.replace('_', '-')}", time)]
    return ["--health-cmd", f"/bin/sh {path}", *times]


def composed(path: str) -> dict[str, Any]:
    """Return the same settings for a compose file."""
    return {"test": ["CMD", "/bin/sh", path], **_TIMES}


def files(health: Health) -> dict[str, str]:
    """Return the script ``health`` for a bundle, which exits with 0 if the agent is healthy, and its program."""
    match health:
        case Page(url, status):
            return {"health": _asks(url, str(status)), _PROGRAM: _program()}
        case OpenPort(port):
            return {"health": _asks(str(port)), _PROGRAM: _program()}
        case Command(argv):
            return {"health": _script(shlex.join(argv))}
        case None:
            return {"health": _script("true")}


def _asks(*words: str) -> str:
    # An image without Python cannot ask. Its agent counts as healthy while it runs.
    can_ask = "command -v python3 >/dev/null || exit 0\n"
    return _script(f'python3 -I "${{0%/*}}/{_PROGRAM}" {shlex.join(words)}', can_ask)


def _script(command: str, before: str = "") -> str:
    return f"""\
#!/bin/sh
# health: exits with 0 if the agent is healthy.
{before}exec /bin/sh "${{0%/*}}/enter" {command}
"""


def _program() -> str:
    return source("paddock.onboard.loopback")
