"""``status`` and ``verify`` know the backups of agents, and do not wait for a destination that does not answer."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backups.saving import back_up, destination
from cli.conftest import Paddock
from paddock.backups.contract import Drill, name_at
from paddock.verbs import status

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  hermes: {kind: hermes, version: 0.19.0, place: here, runtime: process, backup: {to: ./backups}}
  other: {kind: hermes, version: 0.19.0, place: here, runtime: process, connectors: {api_server: {port: 8700}}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return path


def of_status(paddock: Paddock) -> list[tuple[str, str]]:
    return [(row["backup"], row["drill"]) for row in json.loads(paddock("status", "--json").out)]


def of_verify(paddock: Paddock, *more: str) -> dict[str, Any]:
    (report,) = json.loads(paddock("verify", "hermes", "--json", *more).out)
    return {line["check"]: line["outcome"] for line in report["lines"] if line["check"].startswith("backup")}


def test_status_and_verify_tell_the_age_of_the_newest_backup(file: Path, paddock: Paddock) -> None:
    assert of_status(paddock) == [(f"none in {file.parent}/backups/home_hermes", "none yet"), ("-", "-")]
    assert of_verify(paddock) == {"backup": "failed", "backup.drill": "unavailable"}
    now = datetime.now(UTC).replace(microsecond=0)
    made = now - timedelta(hours=3)
    back_up(file, file.parent / "home", {"a.md": "a"}, made)
    assert of_verify(paddock) == {"backup": "ok", "backup.drill": "unavailable"}
    assert of_verify(paddock, "--set", "agents.hermes.backup.max_age=1h") == {
        "backup": "failed",
        "backup.drill": "unavailable",
    }
    destination(file).note_drill(Drill(name_at(made), now, 40.0, "a database is damaged"))
    assert of_verify(paddock) == {"backup": "ok", "backup.drill": "failed"}
    [(backup, drill), _] = of_status(paddock)
    assert backup.startswith(f"{name_at(made)}, 3h ")
    assert drill.startswith(f"{name_at(made)} failed ")
    assert of_verify(paddock, "--set", "agents.hermes.backup=null") == {}


def test_status_does_not_wait_for_a_destination_that_does_not_answer(
    file: Path, paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """restic is a program here that writes its number down and sleeps, as it does when the network is down."""
    fake = tmp_path / "bin/restic"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setenv("REPOSITORY_PASSWORD", "word")
    monkeypatch.setattr(status, "_PATIENCE", 2.5)
    restic = "agents.hermes.backup={to: {restic: {repository: 'sftp:nas:/b', password: {env: REPOSITORY_PASSWORD}}}}"
    start = time.monotonic()
    (row, _) = json.loads(paddock("status", "--json", "--set", restic).out)
    assert time.monotonic() - start < 8
    assert (row["backup"], row["drill"]) == ("unknown: sftp:nas:/b did not answer in time", "unknown")
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_status_does_not_wait_for_a_folder_that_does_not_answer(
    file: Path, paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddock.backups.folder import FolderDestination

    monkeypatch.setattr(FolderDestination, "backups", lambda self: time.sleep(3))
    monkeypatch.setattr(status, "_PATIENCE", 1.5)
    assert of_status(paddock)[0] == ("unknown: the destination did not answer within 2 s", "unknown")
