"""Files are written together: all of them, or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.errors import BadInput
from paddock.setup.files import PRIVATE, NewFile, write_together


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_written_with_their_modes_and_folders(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before")
    write_together(
        [
            NewFile(tmp_path / "new/a", b"1", "", replaces=True),
            NewFile(tmp_path / "deep/er/secret", b"2", "", PRIVATE),
            NewFile(tmp_path / "old", b"3", "", replaces=True),
        ]
    )
    assert below(tmp_path) == {"new/a": b"1", "deep/er/secret": b"2", "old": b"3"}
    assert (tmp_path / "deep/er/secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new/a").stat().st_mode & 0o777 == 0o644


def test_nothing_is_written_if_the_last_file_exists(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text("mine")
    (tmp_path / "old").write_text("before")
    before = below(tmp_path)
    with pytest.raises(BadInput, match=r"paddock\.yaml exists already"):
        write_together(
            [
                NewFile(tmp_path / "made/first", b"1", ""),
                NewFile(tmp_path / "old", b"after", "", replaces=True),
                NewFile(tmp_path / "paddock.yaml", b"theirs", ""),
            ]
        )
    assert below(tmp_path) == before
    assert listed(tmp_path) == ["old", "paddock.yaml"], "folders and temporary files are gone too"


def test_nothing_is_written_if_a_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*file/b: Not a directory"):
        write_together([NewFile(tmp_path / "a", b"1", ""), NewFile(tmp_path / "file/b", b"2", "")])
    assert listed(tmp_path) == ["file"]


def test_nothing_is_left_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, calls = os.link, []

    def full(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        link(source, target)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(BadInput, match=r"cannot write .*b: No space left on device"):
        write_together([NewFile(tmp_path / "a", b"1", ""), NewFile(tmp_path / "b", b"2", "")])
    assert listed(tmp_path) == []
