"""What the observation reports of a process that ends again and again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.onboard.agent import Agent
from paddock.onboard.program import programs
from paddock.onboard.program.frozen import decoded
from paddock.onboard.systemd.look import units
from paddock.plan.agent import AgentSeen

UNIT = "paddock-home_bee.main.service"
JOURNAL = f"""\
{UNIT}: Main process exited, code=exited, status=1/FAILURE
cannot read the model
{UNIT}: Main process exited, code=exited, status=3/NOTIMPLEMENTED
{UNIT}: Scheduled restart job, restart counter is at 19.
"""
Seen = Callable[..., AgentSeen]


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Return what reads the report of a unit that systemd shows in this way. The systemd is that of an account."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_PATH", str(tmp_path))  # where root looks for programs
    for name in ("sh", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or "")
    for name, body in {
        "systemctl": f'[ "$2" != show ] || cat {tmp_path}/shown',
        "journalctl": f"cat {tmp_path}/journal",
        "loginctl": "echo yes",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    def read(state: str, journal: str = JOURNAL, unit: str = UNIT, **shown: str | int) -> AgentSeen:
        folder = tmp_path / ".config/systemd/user"
        folder.mkdir(parents=True)
        (folder / unit).symlink_to(tmp_path / f"root/current/units/{unit}")
        properties = {"ActiveState": state, **shown}
        (tmp_path / "shown").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        (tmp_path / "journal").write_text(journal)
        agent = Agent("user", "home_bee", (), f"{tmp_path}/root", f"{tmp_path}/store", f"{tmp_path}/link", "/none")
        found = units(agent)
        report: AgentSeen = decoded(AgentSeen, {name: found[name] for name in ("units", "ends", "said", "notes")})
        return report

    return read


def ago(seconds: float) -> int:
    """Return the time in microseconds, as systemd counts it since the machine was started."""
    return int((time.monotonic() - seconds) * 1e6)


def test_a_process_that_waits_for_its_next_restart_is_crashing(seen: Seen) -> None:
    found = seen("activating", NRestarts=19, SubState="auto-restart", ExecMainCode=1, ExecMainStatus=3)
    assert found.trouble == "crashing, 19 restarts, exit code 3"


def test_a_process_that_was_restarted_a_moment_ago_is_crashing(seen: Seen) -> None:
    """systemd has forgotten how the last process ended; the journal knows it."""
    found = seen(
        "active",
        NRestarts=19,
        SubState="running",
        ExecMainCode=0,
        ExecMainStatus=0,
        ActiveEnterTimestampMonotonic=ago(4),
    )
    assert found.trouble == "crashing, 19 restarts, exit code 3"


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        (f"{UNIT}: Main process exited, code=killed, status=9/KILL\n", "crashing, 4 restarts, signal 9"),
        ("", "crashing, 4 restarts"),
    ],
)
def test_a_signal_is_named_and_an_unknown_end_is_left_out(seen: Seen, journal: str, words: str) -> None:
    found = seen("active", journal, NRestarts=4, SubState="running", ActiveEnterTimestampMonotonic=ago(4))
    assert found.trouble == words


@pytest.mark.parametrize(("restarts", "seconds"), [(19, 3600), (1, 4), (0, 4)])
def test_restarts_of_long_ago_and_a_single_one_are_no_crash(seen: Seen, restarts: int, seconds: int) -> None:
    found = seen("active", NRestarts=restarts, SubState="running", ActiveEnterTimestampMonotonic=ago(seconds))
    assert found.crashing is None
    assert found.trouble == ""


def test_an_agent_that_waits_for_the_lease_does_not_crash(seen: Seen) -> None:
    """Another machine holds the state: the process that takes the lease ends and is started again."""
    unit = UNIT.replace("main", "lease")
    found = seen("activating", unit=unit, NRestarts=19, SubState="auto-restart", ExecMainCode=1, ExecMainStatus=75)
    assert found.trouble == ""
    assert found.units == {unit: "activating"}


def test_a_process_that_is_not_restarted_has_failed(seen: Seen) -> None:
    found = seen("failed", NRestarts=0, SubState="failed", ExecMainCode=1, ExecMainStatus=78)
    assert found.trouble == "failed, exit code 78"


def test_an_agent_that_prints_what_systemd_says_reaches_no_terminal(seen: Seen) -> None:
    """The agent writes into the same journal."""
    hostile = "x: Main process exited, code=exited, status=3\x1b[2J; rm -rf /\n"
    found = seen("active", hostile, NRestarts=4, SubState="running", ActiveEnterTimestampMonotonic=ago(4))
    assert found.trouble == "crashing, 4 restarts, exit code 3"
