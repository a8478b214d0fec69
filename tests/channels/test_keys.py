"""An ssh key that Paddock makes for a person who has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.base.errors import BadInput, PaddockError
from paddock.base.process import CommandFailed, run
from paddock.channels.ssh import make_key


def test_a_new_key_is_private_and_works_without_a_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "new" / "id_ed25519"
    before = os.umask(0)
    try:
        make_key(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    derived = run(["ssh-keygen", "-y", "-P", "", "-f", str(path)])
    public = path.with_name("id_ed25519.pub").read_text()
    assert public.startswith("ssh-ed25519 ")
    assert derived.out.split()[:2] == public.split()[:2]


@pytest.mark.parametrize("name", ["id", "id.pub"])
def test_no_key_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(BadInput, match=f"{name} exists already"):
        make_key(tmp_path / "id")
    assert (tmp_path / name).read_text() == "precious"
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "id").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="exists already"):
        make_key(tmp_path / "id")
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "id").write_text("precious")
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(CommandFailed, match="making the ssh key"):
        make_key(tmp_path / "id")
    assert (tmp_path / "id").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PaddockError, match="cannot create"):
        make_key(tmp_path / "file" / "id")
