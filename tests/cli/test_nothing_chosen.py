"""A verb that finds nothing to do its work on says so. Nothing is not a success: a job of cron would stay green."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Paddock

FILE = """
project: home
places: {here: {host: {}}}
agents:
  web: {kind: service, place: here, runtime: process, command: [sleep, inf]}
"""
NO_BACKUP = ("error: no agent of the file has a backup", "hint: add `backup: {to: ./backups}` to the agents")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.yaml").write_text(FILE)


@pytest.mark.parametrize("words", ["backup", "backup --dry-run", "backup list", "backup list --json", "backup prune"])
def test_without_a_backup_in_the_file_no_verb_of_backups_succeeds(paddock: Paddock, words: str) -> None:
    done = paddock(*words.split())
    assert (done.code, done.out) == (2, "")
    assert tuple(line.strip() for line in done.err.splitlines()[-2:]) == NO_BACKUP


def test_a_file_of_secrets_that_does_not_exist_has_no_empty_list(paddock: Paddock) -> None:
    done = paddock("secrets", "list")
    assert (done.code, done.out) == (2, "")
    assert "secrets.age does not exist" in done.err


def test_a_prune_of_templates_without_any_says_so(paddock: Paddock) -> None:
    assert paddock("template", "prune").out == "nothing to remove\n"
