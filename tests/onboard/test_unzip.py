"""The backup in a zip file: what is in it arrives, and a hostile one is refused before anything is unpacked."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.onboard.imports.folder import Unusable, Zip

ORDER: dict[str, Any] = {
    "becomes": ".hermes",
    "known_by": ["config.yaml", ".env", "state.db"],
    "wrappers": ["hermes"],
    "beside": "_external",
}
OURS = {"config.yaml": b"model: x\n"}


def made(path: Path, files: dict[str, bytes], **external: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo("x", (2024, 5, 6, 7, 8, 10))
            entry.filename = name  # the constructor would make some names harmless
            entry.external_attr = external.get(name, stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def unpacked(path: Path, folder: Path) -> dict[str, bytes]:
    Zip(str(path), ORDER).unpack(str(folder))
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("wrapper", ["", ".hermes/", "hermes/"])
def test_the_folder_around_all_entries_is_not_part_of_the_state(tmp_path: Path, wrapper: str) -> None:
    files = {f"{wrapper}{name}": data for name, data in {**OURS, "memories/MEMORY.md": b"7421"}.items()}
    found = unpacked(made(tmp_path / "a.zip", files), tmp_path / "out")
    assert found == {".hermes/config.yaml": b"model: x\n", ".hermes/memories/MEMORY.md": b"7421"}


def test_files_beside_the_state_return_to_the_home(tmp_path: Path) -> None:
    found = unpacked(made(tmp_path / "a.zip", {**OURS, "_external/.honcho/c.json": b"{}"}), tmp_path / "out")
    assert found == {".hermes/config.yaml": b"model: x\n", ".honcho/c.json": b"{}"}


def test_only_the_owner_can_read_what_was_unpacked(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip", {**OURS, "hooks/run": b"#!/bin/sh\n"}, **{"hooks/run": stat.S_IFREG | 0o4755})
    unpacked(path, tmp_path / "out")
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "out").rglob("*")}
    assert modes == {".hermes": 0o700, "config.yaml": 0o600, "hooks": 0o700, "run": 0o700}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../../etc/cron.d/x": b"x"}, "not a path below the state"),
        ({"/etc/cron.d/x": b"x"}, "not a path below the state"),
        ({"a/../../x": b"x"}, "not a path below the state"),
        ({"_external/../../x": b"x"}, "not a path below the state"),
        ({"a//b": b"x"}, "not a path below the state"),
        ({"..\\x": b"x"}, "not a path below the state"),
        ({"C:/x": b"x"}, "not a path below the state"),
        ({"a": b"x", "a/b": b"x"}, "is a file and a folder"),
        ({"_external/.hermes/config.yaml": b"x"}, "is twice in the archive"),
        ({"/".join(["deep"] * 250): b"x"}, "more than 200 folders"),
    ],
)
def test_a_hostile_name_is_refused(tmp_path: Path, files: dict[str, bytes], reason: str) -> None:
    path = made(tmp_path / "a.zip", {**OURS, **files})
    with pytest.raises(Unusable, match=reason):
        Zip(str(path), ORDER)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_what_is_not_a_file_is_left_out(tmp_path: Path, kind: int) -> None:
    path = made(tmp_path / "a.zip", {**OURS, "auth.json": b"/etc/shadow"}, **{"auth.json": kind | 0o777})
    assert unpacked(path, tmp_path / "out") == {".hermes/config.yaml": b"model: x\n"}
    assert Zip(str(path), ORDER).links == [".hermes/auth.json"]


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.yaml", "one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("config.yaml", "two")
    with pytest.raises(Unusable, match="twice"):
        Zip(str(path), ORDER)


@pytest.mark.parametrize("files", [{"photos/1.jpg": b"x"}, {"sub/config.yaml": b"x"}, {}])
def test_another_archive_is_not_a_backup(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(Unusable, match="is not such a backup"):
        Zip(str(made(tmp_path / "a.zip", files)), ORDER)


@pytest.mark.parametrize("data", [b"", b"PK\5\6", b"not a zip file at all", b"\x1f\x8b" + bytes(100)])
def test_a_file_that_is_not_a_zip_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(Unusable, match="not a usable zip file"):
        Zip(str(tmp_path / "a.zip"), ORDER)


def test_an_entry_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip", {**OURS, "bomb": bytes(1 << 20)})
    data = path.read_bytes()
    # Both headers say 16 bytes; the compressed content has a MiB.
    path.write_bytes(data.replace(struct.pack("<I", 1 << 20), struct.pack("<I", 16)))
    with pytest.raises(Unusable, match="damaged"):
        unpacked(path, tmp_path / "out")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), flipped=st.integers(0, 2000), data=st.data())
def test_a_damaged_archive_never_gives_other_files(tmp_path: Path, cut: int, flipped: int, data: st.DataObject) -> None:
    files = {**OURS, "memories/MEMORY.md": b"the gate code is 7421\n" * 20, "skills/a/SKILL.md": bytes(range(256))}
    path = made(tmp_path / "a.zip", files)
    whole = bytearray(path.read_bytes())
    whole[flipped % len(whole)] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole[: len(whole) - cut % 40])
    folder = Path(str(tmp_path / "out") + str(data.draw(st.uuids())))
    try:
        found = unpacked(path, folder)
    except (Unusable, OSError, UnicodeError):
        return
    allowed = {f".hermes/{name}": content for name, content in files.items()}
    # The checksum covers contents. Names have none, and stay below the target whatever they are.
    assert all(content in allowed.values() for content in found.values())
