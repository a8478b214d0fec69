"""``paddock adopt`` on a host: existing files become the state of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Paddock

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  toy: {kind: service, place: here, runtime: process, command: [/bin/true]}
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "paddock.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    state = tmp_path / "XDG_DATA_HOME/paddock/toy/state"
    state.mkdir(parents=True)
    (state / "facts").write_text("7421")
    return state


def test_only_adopt_claims_existing_files_in_the_state_directory(paddock: Paddock, state: Path) -> None:
    refused = paddock("up")
    assert refused.code == 1
    assert "`paddock adopt toy` claims them" in refused.err
    told = paddock("adopt", "toy")
    assert told.code == 0
    assert "make the existing files the state of toy" in told.err
    assert "--yes carries out this plan" in told.err
    assert (state / "facts").exists()
    done = paddock("adopt", "toy", "--yes")
    assert done.code == 0, done.err
    assert done.out == "toy: adopted; `paddock plan` shows what `up` would change\n"
    assert (state / "home/facts").read_text() == "7421"
    assert paddock("up").code == 0
    assert Path("paddock.yaml").read_text() == FILE


def test_adopt_of_a_container_is_refused_on_a_host(paddock: Paddock, state: Path) -> None:
    refused = paddock("adopt", "toy", "105", "--yes")
    assert refused.code == 4
    assert "neither containers nor volumes" in refused.err
