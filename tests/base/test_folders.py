"""The folders of the account that runs Paddock."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.base import folders
from paddock.base.computer import state_folder, write_private
from paddock.channels import ssh
from paddock.show.journal import Journal

VARIABLES = {"XDG_CONFIG_HOME": folders.config, "XDG_CACHE_HOME": folders.cache}
VARIABLES |= {"XDG_DATA_HOME": folders.data, "XDG_STATE_HOME": folders.state}


@pytest.mark.parametrize(("variable", "folder"), VARIABLES.items())
def test_a_base_folder_is_the_variable_only_if_that_is_an_absolute_path(
    variable: str, folder: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/srv/elsewhere")
    assert folder() == Path("/srv/elsewhere")
    for ignored in ("", "relative", "./relative", "~/relative"):
        monkeypatch.setenv(variable, ignored)
        assert folder().is_relative_to(tmp_path), ignored
    monkeypatch.delenv(variable)
    assert folder().is_relative_to(tmp_path)


def test_all_folders_that_paddock_creates_for_itself_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(home))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    Journal("up").close()
    ssh.write_if_changed(ssh.cache_folder("known_hosts") / "key", "text")
    write_private(folders.config() / "paddock/age.key", b"key")
    created = {path: stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*") if path.is_dir()}
    assert {state_folder(), folders.cache() / "paddock", folders.config() / "paddock"} <= created.keys()
    assert {*created.values()} == {0o700}, created
    assert stat.S_IMODE(home.stat().st_mode) == 0o755, "a folder that exists keeps its mode"
