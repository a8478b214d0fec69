"""Which part of a path lets another account change what root reads there."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock.verbs.trusted_files import weak_path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of other accounts")

OTHER = 12345


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder of root that every account may enter, below the sticky /tmp."""
    made = Path(tempfile.mkdtemp(prefix="paddock-weak-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def file(top: Path) -> Path:
    file = top / "a/b/paddock.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    return file


def weak(path: Path) -> tuple[str, str, int | None] | None:
    found = weak_path(path, {0})
    return (found.path, found.why, found.owner) if found else None


def test_a_file_of_root_below_the_sticky_tmp_is_safe(file: Path) -> None:
    assert weak(file) is None


def test_every_part_of_a_path_counts(file: Path, top: Path) -> None:
    for part in (file, file.parent, file.parent.parent, top):
        os.chown(part, OTHER, 0)
        assert weak(file) == (str(part), f"belongs to the account {OTHER}", OTHER)
        os.chown(part, 0, 0)
        mode = part.stat().st_mode & 0o777
        part.chmod(mode | 0o002)
        assert weak(file) == (str(part), "may be written by every account", None)
        part.chmod(mode)
    assert weak(file) is None


def test_a_relative_path_and_dots_are_followed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    (file.parent.parent / "c").mkdir()
    os.chown(file.parent.parent / "c", OTHER, OTHER)
    assert weak(Path("paddock.yaml")) is None
    assert weak(Path("../c/../b/paddock.yaml")) == (
        str(file.parent.parent / "c"),
        f"belongs to the account {OTHER}",
        OTHER,
    )
    assert weak(Path("../c/..")) is not None


def test_links_are_followed_through_the_folders_that_they_name(file: Path, top: Path) -> None:
    planted = top / "planted"
    planted.mkdir()
    os.chown(planted, OTHER, OTHER)
    (planted / "paddock.yaml").write_text("x")
    (top / "link").symlink_to("a/b")
    assert weak(top / "link/paddock.yaml") is None
    (top / "to-planted").symlink_to(planted)
    assert weak(top / "to-planted/paddock.yaml") == (str(planted), f"belongs to the account {OTHER}", OTHER)
    (top / "up").symlink_to("planted/../a/b/paddock.yaml")
    assert weak(top / "up") is not None
    (top / "loop").symlink_to("loop")
    assert weak(top / "loop") == (str(top / "loop"), "has too many links", None)


def test_a_link_of_another_account_in_a_sticky_folder_is_weak(file: Path, top: Path) -> None:
    shared = top / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(file)
    assert weak(shared / "link") is None
    os.chown(shared / "link", OTHER, OTHER, follow_symlinks=False)
    assert weak(shared / "link") == (str(shared / "link"), f"belongs to the account {OTHER}", OTHER)


def test_a_file_that_another_account_can_create_is_weak(file: Path, top: Path) -> None:
    assert weak(top / "a/nothing/here") is None
    shared = top / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert weak(shared / "nothing") == (str(shared), "may be written by every account", None)
    assert weak(shared) == (str(shared), "may be written by every account", None)
    assert weak(file / "below-a-file") is None


def test_a_group_with_other_members_is_weak(file: Path, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members: dict[int, list[str]] = {0: [], 4242: []}

    def getgrgid(gid: int) -> SimpleNamespace:
        return SimpleNamespace(gr_name=f"g{gid}", gr_mem=members[gid])

    monkeypatch.setattr(grp, "getgrgid", getgrgid)
    os.chown(file.parent, 0, 4242)
    file.parent.chmod(0o775)
    assert weak(file) is None  # like the group staff of Debian, which has no members
    members[4242] = ["root"]
    assert weak(file) is None
    members[4242] = ["daemon"]
    assert weak(file) == (str(file.parent), "may be written by the group g4242", None)
    members[4242] = []
    primary = SimpleNamespace(pw_uid=OTHER, pw_gid=4242)
    monkeypatch.setattr(pwd, "getpwall", lambda: [primary])
    assert weak(file) is not None
    monkeypatch.setattr(pwd, "getpwall", list)
    del members[4242]
    assert weak(file) == (str(file.parent), "may be written by the group 4242", None)


def set_acl(path: Path, daemon: int, mask: int) -> None:
    """Give an account rights with an ACL. The numbers are those of linux/posix_acl_xattr.h."""
    nobody = 0xFFFFFFFF
    uid = pwd.getpwnam("daemon").pw_uid
    entries = [(0x01, 6, nobody), (0x02, daemon, uid), (0x04, 4, nobody), (0x10, mask, nobody), (0x20, 4, nobody)]
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", content)
    except OSError as error:
        pytest.skip(f"the filesystem has no ACLs: {error}")


@pytest.mark.parametrize(("daemon", "mask", "found"), [(6, 6, True), (4, 6, False), (6, 4, False)])
def test_an_acl_lets_another_account_write(file: Path, daemon: int, mask: int, found: bool) -> None:
    set_acl(file, daemon, mask)
    assert weak(file) == ((str(file), "may be written by daemon", None) if found else None)
