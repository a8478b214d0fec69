"""Copies of databases are made in a temporary folder that is not in the folder of the install."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.onboard.imports import give as module
from paddock.onboard.imports.folder import Unusable
from paddock.onboard.imports.give import staging


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


def test_the_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with staging(1, avoid="/nowhere") as made:
        assert Path(made).parent == tmp_path / "runtime"
        (Path(made) / "copy").touch()
    assert list((tmp_path / "runtime").iterdir()) == []


def test_the_folder_is_never_in_the_install(tmp_path: Path) -> None:
    with staging(1, avoid=str(tmp_path)) as made:
        assert not made.startswith(str(tmp_path))


def test_what_a_killed_import_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    (runtime / "paddock-import-killed").mkdir()
    (runtime / "paddock-import-killed/copy").touch()
    (runtime / "paddock-import-link").symlink_to(tmp_path)
    (runtime / "of-somebody").mkdir()
    with staging(1, avoid="/nowhere") as first, staging(1, avoid="/nowhere") as second:
        kept = {Path(first).name, Path(second).name, "paddock-import-link", "of-somebody"}
        assert {each.name for each in runtime.iterdir()} == kept
    assert tmp_path.exists()


def test_without_room_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_room", lambda path: 100 << 20)
    with pytest.raises(Unusable, match="there is no room for 50 MiB in "), staging(50 << 20, avoid="/nowhere"):
        pytest.fail("there is no room")
