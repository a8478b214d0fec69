"""A sandbox deletes its own directory, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox import directory
from paddock.sandbox.clean import clean
from paddock.sandbox.errors import SandboxError


def test_somebody_elses_directory_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SandboxError, match="is not a sandbox's directory"):
        clean(tmp_path)
    with pytest.raises(SandboxError, match="not a sandbox's"):
        directory.make(tmp_path)
    assert (tmp_path / "precious").exists()


def test_its_own_goes_with_everything_in_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    directory.make(state)
    (state / "volumes").mkdir()
    directory.make(state)
    clean(state)
    assert not state.exists()
    clean(state)


def test_one_that_was_about_to_become_a_sandboxs_goes_too(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    clean(state)
    assert not state.exists()
