"""Files are written together: all of them, or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.base.errors import BadInput
from paddock.setup.files import PRIVATE, NewFile, write_together


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_written_with_their_modes_and_folders(folder: Path) -> None:
    (folder / "old").write_text("before")
    write_together(
        [
            NewFile(folder / "new/a", b"1", "", replaces=True),
            NewFile(folder / "deep/er/secret", b"2", "", PRIVATE),
            NewFile(folder / "old", b"3", "", replaces=True),
        ]
    )
    assert below(folder) == {"new/a": b"1", "deep/er/secret": b"2", "old": b"3"}
    assert (folder / "deep/er/secret").stat().st_mode & 0o777 == 0o600
    assert (folder / "deep").stat().st_mode & 0o777 == 0o700
    assert (folder / "new/a").stat().st_mode & 0o777 == 0o644


def test_nothing_is_written_if_the_last_file_exists(folder: Path) -> None:
    (folder / "paddock.yaml").write_text("mine")
    (folder / "old").write_text("before")
    before = below(folder)
    with pytest.raises(BadInput, match=r"paddock\.yaml exists already"):
        write_together(
            [
                NewFile(folder / "made/first", b"1", ""),
                NewFile(folder / "old", b"after", "", replaces=True),
                NewFile(folder / "paddock.yaml", b"theirs", ""),
            ]
        )
    assert below(folder) == before
    assert listed(folder) == ["old", "paddock.yaml"], "folders and temporary files are gone too"


def test_nothing_is_written_if_a_folder_cannot_be_made(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*file/b: Not a directory"):
        write_together([NewFile(folder / "a", b"1", ""), NewFile(folder / "file/b", b"2", "")])
    assert listed(folder) == ["file"]


def test_nothing_is_left_if_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, calls = os.link, []

    def full(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        link(source, target)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(BadInput, match=r"cannot write .*b: No space left on device"):
        write_together([NewFile(folder / "a", b"1", ""), NewFile(folder / "b", b"2", "")])
    assert listed(folder) == []
