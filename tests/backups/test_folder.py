"""Backups in a folder."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyrage import x25519

from onboard.streams import received, sent
from paddock.backups.contract import Drill, name_at
from paddock.backups.folder import FolderDestination
from paddock.backups.sealing import CannotOpen
from paddock.backups.verified import Incomplete, Verified
from paddock.base.errors import BadInput
from paddock.onboard.stream.layout import matcher

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
TEXTS = matcher(["memories/*.md"])


@pytest.fixture
def stream(tmp_path: Path) -> bytes:
    home = tmp_path / "home"
    (home / "memories").mkdir(parents=True)
    (home / "memories/MEMORY.md").write_text("the gate code is 7421\n")
    (home / "data").write_bytes(os.urandom(100_000))
    return sent(home)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> x25519.Identity:
    made = x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(made))
    return made


def verified(stream: bytes) -> Verified:
    return Verified(io.BytesIO(stream), TEXTS, lambda count: None)


@pytest.fixture(params=["plain", "encrypted"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, key: x25519.Identity) -> FolderDestination:
    recipients = [str(key.to_public())] if request.param == "encrypted" else []
    made = FolderDestination(tmp_path / "backups/home_hermes", recipients)
    made.check()
    return made


def test_a_backup_comes_back(folder: FolderDestination, stream: bytes, tmp_path: Path) -> None:
    backup = folder.save(verified(stream), NOON)
    assert [each.name for each in folder.backups()] == [backup.name] == ["2026-11-16T12-00-00Z"]
    with folder.read(backup) as back:
        assert back.read() == stream
    assert folder.texts(backup) == {"memories/MEMORY.md": "the gate code is 7421\n"}
    assert backup.about["agent"] == "home_hermes"
    assert {oct(path.stat().st_mode & 0o777) for path in folder.folder.iterdir()} == {"0o600"}
    folder.remove([backup])
    assert list(folder.folder.iterdir()) == []


def test_only_the_recipients_can_read_it(folder: FolderDestination, stream: bytes) -> None:
    folder.save(verified(stream), NOON)
    readable = any(b"7421" in path.read_bytes() for path in folder.folder.iterdir())
    assert not (readable and folder.recipients)


@pytest.mark.skipif(shutil.which("age") is None, reason="age is not installed")
def test_age_zstd_and_tar_alone_read_it(folder: FolderDestination, stream: bytes, tmp_path: Path) -> None:
    folder.save(verified(stream), NOON)
    (tmp_path / "age.key").write_text(os.environ["PADDOCK_AGE_KEY"])
    archive = next(iter(folder.folder.glob("*.tar.zst*")))
    decrypted = f"age -d -i age.key {archive}" if archive.suffix == ".age" else f"cat {archive}"
    subprocess.run(["bash", "-o", "pipefail", "-c", f"{decrypted} | zstd -d | tar -x"], cwd=tmp_path, check=True)
    assert (tmp_path / "state/memories/MEMORY.md").read_text() == "the gate code is 7421\n"


@pytest.mark.parametrize("cut", [0, 0.1, 0.5, 0.99])
def test_a_stream_that_ends_early_is_not_kept(folder: FolderDestination, stream: bytes, cut: float) -> None:
    with pytest.raises(Incomplete):
        folder.save(verified(stream[: int(cut * len(stream.rstrip(b"\0")))]), NOON)
    assert folder.backups() == []
    assert list(folder.folder.iterdir()) == []


def test_a_damaged_archive_is_noticed(folder: FolderDestination, stream: bytes, tmp_path: Path) -> None:
    backup = folder.save(verified(stream), NOON)
    archive = next(folder.folder.glob("*.tar.zst*"))
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    with pytest.raises(CannotOpen), folder.read(backup) as back:
        received(back.read(), tmp_path / "back")


def test_an_archive_without_its_description_does_not_count(folder: FolderDestination, stream: bytes) -> None:
    folder.save(verified(stream), NOON)
    (folder.folder / "2026-11-16T12-00-00Z.json").unlink()
    assert folder.backups() == []


def test_what_interrupted_backups_have_left_is_removed_after_a_day(folder: FolderDestination, stream: bytes) -> None:
    folder.save(verified(stream), NOON)
    complete = sorted(folder.folder.iterdir())
    other = folder.folder / "notes.txt"
    now = datetime.now(UTC).replace(microsecond=0)
    recent = [folder.folder / f"{name_at(now)}.tar.zst", folder.folder / f".{name_at(now)}.partial"]
    for path in (
        other,
        *recent,
        folder.folder / ".2020-01-01T00-00-00Z.partial",
        folder.folder / "2020-01-01T00-00-00Z.tar.zst",
        folder.folder / "2020-01-01T00-00-00Z.texts.json.zst",
    ):
        path.touch()
    folder.remove([])
    assert sorted(folder.folder.iterdir()) == sorted([*complete, other, *recent])


def test_a_backup_that_no_one_here_can_read_is_refused(tmp_path: Path, key: x25519.Identity) -> None:
    other = str(x25519.Identity.generate().to_public())
    with pytest.raises(BadInput, match="could not be read again"):
        FolderDestination(tmp_path / "backups", [other]).check()


def test_another_key_does_not_open_it(
    tmp_path: Path, stream: bytes, key: x25519.Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FolderDestination(tmp_path / "backups", [str(key.to_public())])
    folder.check()
    backup = folder.save(verified(stream), NOON)
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(x25519.Identity.generate()))
    with pytest.raises(CannotOpen, match="cannot be decrypted"), folder.read(backup) as back:
        back.read()


def test_the_last_drill_is_kept_beside_the_backups(tmp_path: Path) -> None:
    destination = FolderDestination(tmp_path, ())
    assert destination.last_drill() is None
    first = Drill("2026-11-16T02-02-12Z", datetime(2026, 11, 16, 3, tzinfo=UTC), 12.5, "the database is damaged")
    second = replace(first, failure=None)
    destination.note_drill(first)
    destination.note_drill(second)
    assert destination.last_drill() == second
    assert destination.backups() == []
    (tmp_path / "drill.json").write_text("{}")
    assert destination.last_drill() is None


def test_two_backups_of_one_second_have_two_names(folder: FolderDestination, stream: bytes) -> None:
    names = [folder.save(verified(stream), NOON).name for _ in range(2)]
    assert names == ["2026-11-16T12-00-00Z", "2026-11-16T12-00-01Z"] == [each.name for each in folder.backups()]


def test_a_link_in_the_place_of_a_new_archive_is_not_written_through(
    folder: FolderDestination, stream: bytes, tmp_path: Path
) -> None:
    other = tmp_path / "of-somebody-else"
    other.write_text("untouched")
    for suffix in ("partial", "tar.zst", "tar.zst.age", "json"):
        (folder.folder / f".{name_at(NOON)}.{suffix}").symlink_to(other)
    assert folder.save(verified(stream), NOON).name == name_at(NOON)
    assert other.read_text() == "untouched"


@pytest.mark.parametrize(("mode", "owner"), [(0o777, None), (0o1777, None), (0o700, 12345), (0o700, 0)])
def test_a_folder_that_another_account_can_write_keeps_no_backup(tmp_path: Path, mode: int, owner: int | None) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    folder.chmod(mode)
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("only root gives folders away")
        os.chown(folder, owner, -1)
    if owner == 0:
        FolderDestination(folder, []).check()
        return
    with pytest.raises(BadInput, match=r"another account|other accounts") as refused:
        FolderDestination(folder, []).check()
    assert str(folder) in str(refused.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize(("mode", "owner", "usable"), [(0o755, 12345, False), (0o777, 0, False), (0o1777, 0, True)])
def test_a_folder_above_that_another_account_can_rename_in_keeps_no_backup(
    tmp_path: Path, mode: int, owner: int, usable: bool, stream: bytes
) -> None:
    above = tmp_path / "shared"
    above.mkdir()
    above.chmod(mode)
    os.chown(above, owner, -1)
    destination = FolderDestination(above / "home_hermes", [])
    (above / "home_hermes").mkdir()
    if usable:
        destination.check()
        assert destination.doubts(destination.save(verified(stream), NOON)) == []
        return
    with pytest.raises(BadInput, match=str(above)) as refused:
        destination.check()
    assert str(above) in str(refused.value.hint)
    assert str(above) in destination.doubts(destination.save(verified(stream), NOON))[0], "a restore asks"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_backups_of_root_can_be_beside_the_file_of_another_account(tmp_path: Path) -> None:
    """Whoever can write the file decides everything anyway: root deploys on this machine from a person's home."""
    os.chown(tmp_path, 12345, -1)
    destination = FolderDestination(tmp_path / "backups/home_hermes", [], beside=tmp_path)
    destination.check()
    with pytest.raises(BadInput, match="another account"):
        replace(destination, beside=None).check()
