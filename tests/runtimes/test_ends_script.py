"""What the observation reports of a process that ends again and again."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.plan.agent import AgentSeen
from paddock.runtimes.sent import text

UNIT = "paddock-home_bee.main.service"
JOURNAL = f"""\
{UNIT}: Main process exited, code=exited, status=1/FAILURE
cannot read the model
{UNIT}: Main process exited, code=exited, status=3/NOTIMPLEMENTED
{UNIT}: Scheduled restart job, restart counter is at 19.
"""


def seen(world: Path, state: str, journal: str = JOURNAL, unit: str = UNIT, **shown: str | int) -> AgentSeen:
    """Return what is read from the report of a unit that systemd shows in this way."""
    (world / "units").mkdir()
    (world / "root/current/units").mkdir(parents=True)
    (world / "units" / unit).symlink_to(world / f"root/current/units/{unit}")
    lines = "\n".join(f"{name}={value}" for name, value in shown.items())
    (world / "shown").write_text(f"{lines}\n")
    (world / "journal").write_text(journal)
    for name, body in {
        "systemctl": f'case $1 in is-active) echo {state} ;; show) cat "$WORLD/shown" ;; esac',
        "journalctl": 'cat "$WORLD/journal"',
    }.items():
        (world / name).write_text(f"#!/bin/sh\n{body}\n")
        (world / name).chmod(0o755)
    library = text("systemd/observation.sh").replace("units=/etc/systemd/system", f"units={world}/units")
    script = f"set -eu; manager=system root={world}/root state_link={world}/link agent=home_bee formers=\n{library}\n"
    environment = {"PATH": f"{world}:{os.environ['PATH']}", "WORLD": str(world)}
    done = subprocess.run(
        ["sh", "-c", f"{script}observe_units"], env=environment, capture_output=True, text=True, check=True
    )
    found = [record.strip("\0").partition("=")[::2] for record in done.stdout.split("\0") if "=" in record]
    return AgentSeen.from_records([pair for pair in found if pair[0] in ("unit", "ends", "said", "note")])


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%a %Y-%m-%d %H:%M:%S UTC")


def test_a_process_that_waits_for_its_next_restart_is_crashing(tmp_path: Path) -> None:
    found = seen(tmp_path, "activating", NRestarts=19, SubState="auto-restart", ExecMainCode=1, ExecMainStatus=3)
    assert found.trouble == "crashing, 19 restarts, exit code 3"


def test_a_process_that_was_restarted_a_moment_ago_is_crashing(tmp_path: Path) -> None:
    """systemd has forgotten how the last process ended; the journal knows it."""
    found = seen(
        tmp_path,
        "active",
        NRestarts=19,
        SubState="running",
        ExecMainCode=0,
        ExecMainStatus=0,
        ActiveEnterTimestamp=ago(4),
    )
    assert found.trouble == "crashing, 19 restarts, exit code 3"


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        (f"{UNIT}: Main process exited, code=killed, status=9/KILL\n", "crashing, 4 restarts, signal 9"),
        ("", "crashing, 4 restarts"),
    ],
)
def test_a_signal_is_named_and_an_unknown_end_is_left_out(tmp_path: Path, journal: str, words: str) -> None:
    found = seen(tmp_path, "active", journal, NRestarts=4, SubState="running", ActiveEnterTimestamp=ago(4))
    assert found.trouble == words


@pytest.mark.parametrize(("restarts", "seconds"), [(19, 3600), (1, 4), (0, 4)])
def test_restarts_of_long_ago_and_a_single_one_are_no_crash(tmp_path: Path, restarts: int, seconds: int) -> None:
    found = seen(tmp_path, "active", NRestarts=restarts, SubState="running", ActiveEnterTimestamp=ago(seconds))
    assert found.crashing is None
    assert found.trouble == ""


def test_an_agent_that_waits_for_the_lease_does_not_crash(tmp_path: Path) -> None:
    """Another machine holds the state: the process that takes the lease ends and is started again."""
    unit = UNIT.replace("main", "lease")
    found = seen(
        tmp_path, "activating", unit=unit, NRestarts=19, SubState="auto-restart", ExecMainCode=1, ExecMainStatus=75
    )
    assert found.trouble == ""
    assert found.units == {unit: "activating"}


def test_a_process_that_is_not_restarted_has_failed(tmp_path: Path) -> None:
    found = seen(tmp_path, "failed", NRestarts=0, SubState="failed", ExecMainCode=1, ExecMainStatus=78)
    assert found.trouble == "failed, exit code 78"


def test_an_agent_that_prints_what_systemd_says_reaches_no_terminal(tmp_path: Path) -> None:
    """The agent writes into the same journal."""
    hostile = "x: Main process exited, code=exited, status=3\x1b[2J; rm -rf /\n"
    found = seen(tmp_path, "active", hostile, NRestarts=4, SubState="running", ActiveEnterTimestamp=ago(4))
    assert found.trouble == "crashing, 4 restarts, exit code 3"
