"""The scheduled run: each agent by itself, with notifications of failed and overdue backups."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backups.saving import back_up
from cli.conftest import Paddock, paddock
from paddock.verbs import scheduled

__all__ = ["paddock"]

FILE = """\
project: home
places:
  here: {host: {}}
  node:
    proxmox:
      url: https://127.0.0.1:1
      node: pve
      token: {env: NO_SUCH_TOKEN}
      storage: local
      base: local:vztmpl/debian.tar
      fingerprint: "00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00"
      ssh: {key: ./key}
defaults: {kind: hermes, version: 0.19.0, runtime: process}
agents:
  remote: {place: node, runtime: systemd, backup: {to: ./backups}}
  hermes: {place: here, backup: {to: ./backups, max_age: 1d}}
  asleep: {place: here, enabled: false, backup: {to: ./backups}}
  without: {place: here, connectors: {api_server: {port: 8700}}}
notify: {command: [sh, -c, "cat >>told; echo >>told"]}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0cCn0cCn0cCn0cCn0cCn0cCn0cCn0cCn0cCn0cCn0c\n"
    )
    (tmp_path / "paddock.yaml").write_text(FILE)
    return tmp_path / "paddock.yaml"


def told(file: Path) -> list[tuple[str, str]]:
    lines = (file.parent / "told").read_text().splitlines()
    messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [(message["agent"], message["event"]) for message in messages]


def test_one_agent_that_cannot_be_opened_does_not_stop_the_others(file: Path, paddock: Paddock) -> None:
    back_up(file, file.parent / "home", {"a.md": "a"}, datetime.now(UTC).replace(microsecond=0))
    paddock("approve", "--yes")
    said = paddock("schedule", "run")
    assert said.code == 2
    assert "remote: environment variable NO_SUCH_TOKEN is not set" in said.err
    assert "hermes: hermes has no state on its machine yet" in said.err
    # The agents that are not backed up now are told of first; the others are backed up side by side.
    assert told(file)[0] == ("asleep", "backup overdue")
    assert sorted(told(file)[1:]) == [("hermes", "backup failed"), ("remote", "backup failed")]


def test_an_old_backup_of_an_agent_that_fails_is_overdue(file: Path, paddock: Paddock) -> None:
    old = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
    back_up(file, file.parent / "home", {"a.md": "a"}, old)
    paddock("approve", "--yes")
    assert paddock("schedule", "run").code != 0
    assert ("hermes", "backup overdue") in told(file)


def test_a_schedule_needs_an_agent_with_a_backup(file: Path, paddock: Paddock) -> None:
    nothing = [f"agents.{name}.backup=null" for name in ("remote", "hermes", "asleep")]
    said = paddock("schedule", "--dry-run", *(word for each in nothing for word in ("--set", each)))
    assert (said.code, "no agent of the file has a backup" in said.err) == (2, True)
    assert paddock("schedule", "--folder", "/srv").code == 2
    assert "is not another host" in paddock("schedule", "--on", "node").err


def test_a_dry_run_prints_the_units_and_writes_no_journal(file: Path, paddock: Paddock) -> None:
    said = paddock("schedule", "--dry-run", "--at", "03:30")
    assert said.code == 0
    assert "ExecStart=" in said.out
    assert f"schedule run --file {file}\n" in said.out
    assert "OnCalendar=03:30\nPersistent=true\n" in said.out
    assert paddock("timings", "--json").out == "[]\n"


def test_one_agent_that_takes_long_does_not_hold_up_the_others(
    file: Path, paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents whose node saves them wait for each other: it saves one after the other."""
    of_node = "{place: node, runtime: systemd, backup: {to: {proxmox: {storage: local}}}}"
    before, _, after = FILE.partition("  remote:")
    _, _, after = after.partition("  asleep:")
    _, _, after = after.partition("\n")
    other = "{place: here, connectors: {api_server: {port: 8701}}, backup: {to: ./backups}}"
    agents = {"one": of_node, "two": of_node, "hermes": "{place: here, backup: {to: ./backups}}", "other": other}
    file.write_text(before + "".join(f"  {name}: {spec}\n" for name, spec in agents.items()) + after)
    others, log = threading.Event(), []

    def made(_: object, name: str, *__: object) -> str:
        log.append(name)
        if name == "hermes":
            assert others.wait(20), "the other agents wait for this one"
        if len(log) == 4:
            others.set()
        return f"{name}: made"

    monkeypatch.setattr(scheduled, "_one", made)
    paddock("approve", "--yes")
    said = paddock("schedule", "run")
    assert said.code == 0, said.err
    assert sorted(line for line in said.out.splitlines() if line.endswith("made")) == [
        f"{name}: made" for name in ("hermes", "one", "other", "two")
    ]
    assert log.index("one") < log.index("two")
