"""A full disk of the operator does not end a run, and journals are pruned before they fill it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paddock import cli
from paddock.base.errors import PaddockError
from paddock.channels import ssh
from paddock.core import lock
from paddock.core.converge import down, up
from paddock.file.agent_id import AgentId
from paddock.kinds.hermes import checks
from paddock.places.contract import Traits
from paddock.show.journal import Journal
from paddock.show.reporter import Reporter
from paddock.verify import look
from places.node import CATTLE, PET, Node

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpublic"

Fill = Callable[[], None]


@pytest.fixture(params=["blocks", "inodes"])
def disk(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fill]:
    """Mount a small disk for all files that Paddock writes on this machine. Return a function that fills it."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    point = tmp_path / "disk"
    point.mkdir()
    size = {"blocks": "size=64k", "inodes": "size=1m,nr_inodes=24"}[request.param]
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(point)], check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted on this machine")
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        (point / name).mkdir()
        monkeypatch.setenv(name, str(point / name))

    def fill() -> None:
        with suppress(OSError):
            for number in range(1000):
                (point / f"filler{number}").touch()
                if request.param == "blocks":
                    (point / f"filler{number}").write_bytes(b"\0" * 4096)

    yield fill
    subprocess.run(["umount", "--lazy", str(point)], check=True)  # a failed run may have a file open


def paddock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *words]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def test_down_of_a_machine_works_on_a_full_disk(node: Node, disk: Fill) -> None:
    up(node.agent())
    assert CATTLE in node.vmids
    disk()
    reporter = Reporter(Journal("down"))
    with reporter.run():
        agent = node.agent()
        with reporter.of("bee").step("down", "take it down"):
            down(agent)
    assert CATTLE not in node.vmids, "the machine is still there"
    assert PET in node.vmids


def test_the_verb_down_works_on_a_full_disk_with_one_warning(tmp_path: Path, disk: Fill) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(
        "project: home\nplaces: {here: {host: {}}}\n"
        "agents: {web: {kind: service, place: here, runtime: process, command: [sleep, inf]}}\n"
    )
    done = paddock("up", "-f", str(file))
    assert done.returncode == 0, done.stderr
    disk()
    done = paddock("down", "-f", str(file))
    assert "bug in Paddock" not in done.stderr, done.stderr
    assert done.returncode == 0, f"a full disk keeps an agent from being taken down: {done.stderr}"
    assert "web: down" in done.stdout
    assert done.stderr.count("warning:") == 1, done.stderr


def test_a_disk_that_becomes_full_does_not_end_a_run(disk: Fill, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal("up")
    disk()
    for number in range(200):
        journal.write("begin", agent="bee", id=f"step{number}", title="x" * 200)
    journal.close()


@dataclass(frozen=True)
class Named:
    """Stands for an agent and its place."""

    name: str
    traits = Traits("home", mounts_state=False, keeps_machine=True)

    @property
    def id(self) -> AgentId:
        return AgentId("home", self.name)

    @property
    def place(self) -> Any:
        return self


def test_locks_work_on_a_full_disk(disk: Fill) -> None:
    disk()
    bee: Any = Named("bee")
    wasp: Any = Named("wasp")
    with lock.agent_lock(bee), lock.agent_lock(wasp), lock.place_lock(bee):
        pass


def test_the_known_hosts_file_is_written_elsewhere_on_a_full_disk(disk: Fill) -> None:
    disk()
    path = ssh._known_hosts("bee", [KEY])
    assert path.read_text() == f"bee {KEY}\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_an_essential_write_on_a_full_disk_is_an_error_that_names_the_file(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from paddock.file import schema

    def fail(_kinds: object) -> None:
        raise OSError(code, os.strerror(code), "/home/me/.cache/paddock/code/x")

    monkeypatch.setattr(schema, "json_schema", fail)
    monkeypatch.setattr(sys, "argv", ["paddock", "schema"])
    out, err = sys.stdout, sys.stderr
    try:
        with pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        sys.stdout, sys.stderr = out, err
    said = capsys.readouterr().err
    assert "bug in Paddock" not in said, said
    assert end.value.code == 1
    assert said.startswith(
        "error: this machine's disk is full: /home/me/.cache/paddock/code/x cannot be written\n hint: "
    )


def test_a_full_disk_during_one_agents_run_is_reported_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.core.parallel import each

    def verb(agent: Any) -> str:
        if agent.name == "bee":
            raise OSError(errno.ENOSPC, "No space left on device", "/x")
        return f"{agent.name}: down"

    class Agent:
        model_gateway = None

        def __init__(self, name: str) -> None:
            self.name = name
            self.reporter = Reporter().of(name)

    agents: Any = [Agent("bee"), Agent("wasp")]
    try:
        each(agents, 2, verb)
    except PaddockError as error:
        said = error.message
    except OSError as error:
        said = f"a traceback: {error}"
    assert said == "wasp: down\nbee: this machine's disk is full: /x cannot be written"


@pytest.mark.parametrize("said", ["database or disk is full", "disk I/O error", "unable to open database file"])
def test_the_hint_for_a_database_on_a_full_disk_is_not_to_restore_a_backup(said: str) -> None:
    check = checks.databases("hermes", "/state/home")
    answers = {"answers": [{"found": {"content": {"state.db": said}}, "seconds": 0.1}]}
    (line,) = look.lines([check], answers)
    assert "backup" not in (line.hint or ""), f"a database that may be intact would be overwritten: {line.hint}"
    assert "free some space" in (line.hint or "")


def test_the_hint_for_a_damaged_database_is_to_restore_a_backup() -> None:
    check = checks.databases("hermes", "/state/home")
    for said in ("database disk image is malformed", "file is not a database", "*** in database main ***"):
        answers = {"answers": [{"found": {"content": {"state.db": said}}, "seconds": 0.1}]}
        (line,) = look.lines([check], answers)
        assert "backup" in (line.hint or "")


# --- journals


def test_journals_are_pruned_by_age_and_count(tmp_path: Path) -> None:
    runs = tmp_path / "xdg_state_home/paddock/runs"
    runs.mkdir(parents=True)
    now = datetime.now(UTC)
    for hours in range(1, 701):
        (runs / f"{now - timedelta(hours=hours):%Y%m%dT%H%M%S.%f}-up.jsonl").touch()
    (runs / "notes.jsonl").touch()
    (runs / "20200101T000000.000000-mine.txt").touch()
    Journal("up").close()
    left = sorted(path.name for path in runs.glob("2*-up.jsonl"))
    assert len(left) <= 501, f"{len(left)} journals are kept"
    assert left[-2] == f"{now - timedelta(hours=1):%Y%m%dT%H%M%S.%f}-up.jsonl"
    assert (runs / "notes.jsonl").exists()
    assert (runs / "20200101T000000.000000-mine.txt").exists()


def test_the_newest_journals_are_kept_however_old_they_are(tmp_path: Path) -> None:
    runs = tmp_path / "xdg_state_home/paddock/runs"
    runs.mkdir(parents=True)
    now = datetime.now(UTC)
    for days in range(200, 260):
        (runs / f"{now - timedelta(days=days):%Y%m%dT%H%M%S.%f}-up.jsonl").touch()
    Journal("up").close()
    assert len(list(runs.iterdir())) == 21, "the number of old journals is wrong"
