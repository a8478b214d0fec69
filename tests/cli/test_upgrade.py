"""`upgrade` and `rollback` before they reach a machine: which version, and what the file says afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Paddock
from paddock.kinds import load
from paddock.kinds.hermes.recipe import Hermes

FILE = """\
project: home
places:
  here: {host: {}}
agents:
  hermes:
    kind: hermes
    version: "0.19.0"   # as tested
    place: here
    runtime: process
    settings: {model: {provider: anthropic}}
    secrets: {ANTHROPIC_API_KEY: {env: KEY}}
  web: {kind: service, command: [/bin/true], place: here, runtime: process}
"""
VERSION = "agents.hermes.version='0.19.0'"
IMAGE = "agents.hermes.container={image: hermes:1}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("hermes", "--to", "9.9.9"),
            "there is no lock locks/hermes-agent-9.9.9+anthropic.txt, and Paddock ships none",
        ),
        (("hermes", "--to", "newest"), "must be a version: numbers with dots"),
        (
            ("hermes", "--to", "9.9.9", "--set", "agents.hermes.version='0.19.0'"),
            "something overrides the version of hermes in the file",
        ),
        (("web",), "web has no version in the file that could change"),
        (
            ("hermes", "--to", "9.9.9", "--set", "agents.hermes.runtime=docker", "--set", IMAGE),
            "brings the code of hermes",
        ),
    ],
)
def test_an_upgrade_that_cannot_begin_leaves_the_file_as_it_was(
    paddock: Paddock, file: Path, words: tuple[str, ...], message: str
) -> None:
    said = paddock("upgrade", *words, "-f", str(file))
    assert said.code != 0
    assert message in said.err, said.err
    assert file.read_text() == FILE


def test_an_agent_that_was_never_upgraded_has_nothing_to_go_back_from(paddock: Paddock, file: Path) -> None:
    said = paddock("rollback", "hermes", "--yes", "-f", str(file))
    assert (said.code, said.err) == (2, "error: hermes has no upgrade to go back from\n")
    assert file.read_text() == FILE


def test_versions_are_those_with_a_lock_for_the_same_extras_in_the_order_of_numbers(tmp_path: Path, file: Path) -> None:
    spec = load(file).spec.agents["hermes"]
    (tmp_path / "locks").mkdir()
    for name in ("0.9.0+anthropic", "0.100.1+anthropic", "0.101.0+mcp"):
        (tmp_path / f"locks/hermes-agent-{name}.txt").touch()
    found = Hermes().versions(spec, tmp_path)  # type: ignore[arg-type]
    assert found[0] == "0.9.0"
    assert found[-1] == "0.100.1"
    assert "0.19.0" in found
