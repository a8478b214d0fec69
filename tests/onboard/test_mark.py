"""The mark of an import is written with no more rights than the accounts on its path have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.onboard.imports.mark import CannotMark, can_mark, mark_of, read_mark, write_beside, write_mark

MARK = {"agent": "home_bee", "place": "here /var/lib/paddock/bee", "at": "2026-11-16T02:02:12Z"}
NOBODY = 65534


def test_a_mark_is_read_back_and_is_not_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    assert read_mark(str(folder)) is None
    assert can_mark(str(folder))
    write_mark(str(folder), MARK)
    assert read_mark(str(folder)) == MARK
    assert list(folder.iterdir()) == []
    assert "home_bee has it now" in Path(mark_of(str(folder))).read_text()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"agent": 1}', "\xff", "x" * 100_000])
def test_a_mark_that_cannot_be_read_is_somebody_elses(tmp_path: Path, text: str) -> None:
    Path(mark_of(f"{tmp_path}/old")).write_text(text)
    assert read_mark(f"{tmp_path}/old") == {"agent": "?", "place": "?", "at": "?"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to own files of another account")
def test_an_account_cannot_make_root_write_through_its_links(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and str(above) not in ("/", "/tmp"):
            above.chmod(above.stat().st_mode | 0o011)
    system, home = tmp_path / "system", tmp_path / "home"
    system.mkdir(mode=0o755)
    home.mkdir(mode=0o755)
    (home / ".config").symlink_to(system)
    os.chown(home, NOBODY, NOBODY)
    os.lchown(home / ".config", NOBODY, NOBODY)
    with pytest.raises(CannotMark):
        write_beside(f"{home}/.config/ssh.service.d/90-paddock.conf", "x")
    assert list(system.iterdir()) == []
    write_beside(f"{home}/own/90-paddock.conf", "x")
    assert (home / "own/90-paddock.conf").stat().st_uid == NOBODY
