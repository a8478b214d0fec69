"""A verb that finds nothing to do its work on says so. Nothing is not a success: a job of cron would stay green."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from cli.conftest import Paddock
from cli.test_every_verb import verbs

FILE = """
project: home
places: {here: {host: {}}}
agents:
  web: {kind: service, place: here, runtime: process, command: [sleep, inf]}
"""
NO_BACKUP: Final = ("error: no agent of the file has a backup", "hint: add `backup: {to: ./backups}` to the agents")
NONE_ENABLED: Final = (
    "error: no agent of paddock.yaml is enabled",
    "hint: remove `enabled: false`, or name an agent with --only",
)
NO_STORE: Final = (
    "error: secrets.age does not exist",
    "hint: `paddock secrets set NAME` creates it with its first secret",
)
_VERBS: Final = {" ".join(path): command for path, command in verbs().items()}
_WITH_ONLY: Final = [name for name, verb in _VERBS.items() if any("--only" in each.opts for each in verb.params)]
_WITH_ARGUMENT: Final = {
    name
    for name, verb in _VERBS.items()
    if any(each.param_type_name == "argument" and each.required for each in verb.params)
}
# Verbs that work on all agents that are enabled, and verbs that work on all that have a backup.
OF_AGENTS: Final = (*_WITH_ONLY, "verify", "doctor", "template list", "template prune", "rename --from lab")
OF_BACKUPS: Final = ("backup make", "backup list", "backup prune", "schedule install", "schedule run")
# Each of these is told what to work on: an agent, a name in a store, a version; or it works on this machine.
TOLD: Final = _WITH_ARGUMENT | {"check", "init", "sandbox", "sbom", "schema"}
NOTHING_IS_AN_ANSWER: Final = {"approve", "timings", "secrets list", "schedule remove"}  # tests are below


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "paddock.yaml").write_text(FILE)


def failure(paddock: Paddock, words: str) -> tuple[str, ...]:
    """Run a verb that must fail as bad input; return its error and its hint."""
    done = paddock(*words.split())
    assert (done.code, done.out) == (2, "")
    return tuple(line.strip() for line in done.err.splitlines()[-2:])


def test_every_verb_has_a_row_about_nothing_to_work_on() -> None:
    """A verb with --only or with an argument needs none."""
    assert {"up", "plan", "template build"} <= set(_WITH_ONLY)
    assert {"forget", "secrets set"} <= _WITH_ARGUMENT
    rows = {words.partition(" --")[0] for words in (*OF_AGENTS, *OF_BACKUPS)} | TOLD | NOTHING_IS_AN_ANSWER
    assert _VERBS.keys() == rows


@pytest.mark.parametrize("words", [*OF_AGENTS, *(f"{words} --json" for words in ("plan", "status", "outputs"))])
def test_a_verb_without_an_enabled_agent_says_so_and_fails(paddock: Paddock, tmp_path: Path, words: str) -> None:
    (tmp_path / "paddock.yaml").write_text(FILE.replace("inf]", "inf], enabled: false"))
    assert failure(paddock, words) == NONE_ENABLED


@pytest.mark.parametrize("words", ["backup", "backup --dry-run", "backup list --json", *OF_BACKUPS])
def test_without_a_backup_in_the_file_no_verb_of_backups_succeeds(paddock: Paddock, words: str) -> None:
    assert failure(paddock, words) == NO_BACKUP


def test_a_file_of_secrets_that_does_not_exist_has_no_empty_list(paddock: Paddock) -> None:
    assert failure(paddock, "secrets list") == NO_STORE


@pytest.mark.parametrize("words", ["drill", "restore", "restart", "upgrade", "backup check"])
def test_a_verb_about_one_agent_needs_its_name(paddock: Paddock, words: str) -> None:
    assert "Missing argument 'agent'" in failure(paddock, words)[-1]


def test_a_disabled_agent_is_not_backed_up_by_the_timer_and_the_timer_says_so(paddock: Paddock, tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text(FILE.replace("inf]", "inf], enabled: false, backup: {to: ./backups}"))
    done = paddock("schedule", "run")
    assert done.code == 0
    assert done.out.startswith("web: backup overdue: ")


def test_a_timer_can_be_removed_after_the_last_backup_of_the_file(paddock: Paddock) -> None:
    done = paddock("schedule", "remove")
    assert (done.code, done.out) == (0, "nothing to do: paddock-backup-home.timer is not installed\n")


def test_a_file_without_commands_needs_no_approval(paddock: Paddock) -> None:
    assert paddock("approve").out == "nothing to approve\n"


def test_timings_without_a_run_say_so(paddock: Paddock) -> None:
    assert paddock("timings").out == "no run with changes is recorded yet\n"


def test_a_prune_of_templates_without_any_says_so(paddock: Paddock) -> None:
    assert paddock("template", "prune").out == "nothing to remove\n"
