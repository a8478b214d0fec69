"""A sandbox deletes only its own state directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pvebox.api.errors import SandboxError
from pvebox.server import statedir
from pvebox.server.clean import clean


def test_a_directory_with_other_files_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SandboxError, match="is not a sandbox's directory"):
        clean(tmp_path)
    with pytest.raises(SandboxError, match="not a sandbox's"):
        statedir.prepare(tmp_path)
    assert (tmp_path / "precious").exists()


def test_clean_deletes_the_state_directory_of_a_sandbox(tmp_path: Path) -> None:
    state = tmp_path / "state"
    statedir.prepare(state)
    (state / "volumes").mkdir()
    statedir.prepare(state)
    clean(state)
    assert not state.exists()
    clean(state)


def test_clean_deletes_an_empty_directory(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    clean(state)
    assert not state.exists()
