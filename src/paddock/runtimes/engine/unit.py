"""The systemd unit that supervises a container and requires the lease."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final

from paddock.recipes.workload import CLEAN_SIGNALS, Process
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
