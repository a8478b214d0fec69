"""``check``, ``schema`` and ``init``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import DATA

GOOD = DATA / "good.yaml"
SHAPES = ["pet-and-cattle", "docker-lxc", "container", "native"]


def test_check_summarises_a_valid_file(paddock: Any) -> None:
    said = paddock("check", "-f", str(GOOD))
    assert (said.code, said.out, said.err) == (0, "good.yaml: 1 agent in 3 places\n", "")


def test_check_prints_mistakes_to_stderr_and_exits_with_2(paddock: Any) -> None:
    said = paddock("check", "-f", str(GOOD), "--set", "agents.hermes.machine.memory=lots")
    assert (said.code, said.out) == (2, "")
    assert (
        said.err == "error: --set: agents.hermes.machine.memory: a size needs a number and a unit, like 512M or 10G\n"
    )


def test_check_json_of_a_valid_file(paddock: Any) -> None:
    said = paddock("check", "-f", str(GOOD), "--set", "agents.hermes.documents={A.md: b}", "--json")
    assert said.code == 0
    assert json.loads(said.out) == {
        "ok": True,
        "places": {"home": "proxmox", "here": "host", "box": "host"},
        "agents": {"hermes": {"kind": "hermes", "place": "home", "runtime": "systemd", "enabled": True}},
    }


def test_check_json_of_a_file_with_mistakes(paddock: Any, tmp_path: Path) -> None:
    said = paddock("check", "-f", str(GOOD), "--set", "agents.hermes.machine.cores=0", "--json")
    assert said.code == 2
    where = {"file": "--set", "line": 0, "column": 0, "path": "agents.hermes.machine.cores"}
    assert json.loads(said.out) == {"ok": False, "mistakes": [{**where, "what": "must be at least 1"}]}
    said = paddock("check", "-f", str(tmp_path / "none.yaml"), "--json")
    assert json.loads(said.out)["mistakes"] == [{"what": f"there is no {tmp_path / 'none.yaml'}"}]


def test_check_says_which_command_creates_a_lock_that_is_not_there(paddock: Any, tmp_path: Path) -> None:
    words = ("check", "-f", str(GOOD), "--set", "agents.hermes.extras=[voice]")
    said = paddock(*words)
    assert said.code == 2
    assert "agents.hermes.version: there is no lock locks/hermes-agent-0.19.0+voice.txt" in said.err
    assert "`paddock template lock AGENT` creates it" in said.err
    assert json.loads(paddock(*words, "--json").out)["mistakes"][0]["path"] == "agents.hermes.version"
    # An agent that is not enabled needs no lock, nor does one whose image brings the code.
    assert paddock(*words, "--set", "agents.hermes.enabled=false").code == 0
    image = ("agents.hermes.runtime=docker", "agents.hermes.container={image: hermes:1}")
    version = ("check", "-f", str(GOOD), "--set", "agents.hermes.version='0.99.0'")
    assert paddock(*version).code == 2
    assert paddock(*version, "--set", image[0], "--set", image[1]).code == 0


def test_schema_prints_json(paddock: Any) -> None:
    assert json.loads(paddock("schema").out)["title"] == "paddock.yaml"


@pytest.mark.parametrize("shape", SHAPES)
def test_init_writes_an_example_that_passes_check(paddock: Any, tmp_path: Path, shape: str) -> None:
    folder = tmp_path / "new"
    said = paddock("init", str(folder), "--example", shape)
    assert said.code == 0
    assert paddock("check", "-f", str(folder / "paddock.yaml")).code == 0
    assert (folder / "paddock.yaml").read_text().startswith("# yaml-language-server: $schema=./paddock.schema.json\n")
    assert f"{shape}.yaml" not in (folder / "paddock.yaml").read_text()
    assert json.loads((folder / "paddock.schema.json").read_text())["title"] == "paddock.yaml"
    assert ".env" in (folder / ".gitignore").read_text().splitlines()


def test_init_does_not_overwrite_existing_files(paddock: Any, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n.env\n")
    (tmp_path / "paddock.yaml").write_text("mine")
    for words in (["--example", "native"], []):
        said = paddock("init", str(tmp_path), *words)
        assert said.code == 2
        assert "exists already" in said.err
    (tmp_path / "paddock.yaml").unlink()
    assert paddock("init", str(tmp_path), "--example", "native").code == 0
    ignored = (tmp_path / ".gitignore").read_text().splitlines()
    assert ignored[0] == "mine"
    assert ignored.count(".env") == 1
