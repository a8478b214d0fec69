"""tar, which runs for a container in trees that containers fill, does not follow their symlinks out of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the sandbox is an extra: pip install 'paddock[sandbox]'")

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task, Upid
from pvebox.guests.config import CtConfig
from pvebox.runtime.contract import Archive, ArchiveOrder, ContainerSpec, Mount, VolumeRef
from pvebox.runtime.lxc import packing
from pvebox.runtime.lxc.names import FIRST_ID

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root packs backups")
ODD = "two\nlines -rf \udcff\x1b[2J"


def task() -> Task:
    return Task(Upid("pve", 1, 1, 1, "vzdump", "100", "root@pam"))


@pytest.fixture
def ground() -> Iterator[Path]:
    """Yield a folder with a container's tree, and with another container's secret, which containers' root can read."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-archives-"))
    folder.chmod(0o755)
    for name in ("tree", "other"):
        (folder / name).mkdir()
        os.chown(folder / name, FIRST_ID, FIRST_ID)
    (folder / "other/secret").write_text("what another agent knows")
    yield folder
    shutil.rmtree(folder)


def packed(ground: Path, *paths: str) -> tuple[str, bytes]:
    """Pack the tree with mount points at these paths; return what went wrong, if anything, and the archive."""
    mounts = [Mount("rootfs", VolumeRef("pve", "x", "y"), "/")]
    mounts += [Mount("mp0", VolumeRef("pve", "x", "z"), path) for path in paths]
    target = ground / "vzdump-lxc-100-x.tar"
    order = ArchiveOrder(ContainerSpec(100, "pve", CtConfig(), mounts), target, f"/dump/{target.name}", "arch: amd64\n")
    said: list[str] = []
    try:
        packing.pack(ground / "tree", order, task(), lambda *lines: said.extend(lines))
    except Exception as error:  # noqa: BLE001 - whatever the message is
        said.append(str(error))
    return "\n".join(said), target.read_bytes() if target.exists() else b""


@pytest.mark.parametrize("link", ["{other}", "../../../../../../../..{other}"])
def test_a_backup_has_no_file_behind_a_symlink(ground: Path, link: str) -> None:
    (ground / "tree/var").symlink_to(link.format(other=ground))
    _, archive = packed(ground, "/var/other")
    assert b"what another agent knows" not in archive, "the backup has a file of another container"


@pytest.mark.parametrize("link", ["{other}", "../../../../../../../..{other}"])
def test_a_restore_into_an_existing_volume_writes_nothing_behind_its_symlinks(ground: Path, link: str) -> None:
    (ground / "from").mkdir()
    (ground / "from/home").mkdir()
    (ground / "from/home/taken").write_text("x")
    archive = ground / "backup.tar"
    subprocess.run(["tar", "-cf", archive, "-C", ground / "from", "./home/taken"], check=True)
    (ground / "tree/home").symlink_to(link.format(other=ground / "other"))
    with pytest.raises(OperationError):
        packing.unpack(Archive("local:backup/x", archive), ground / "tree", task())
    assert sorted(path.name for path in (ground / "other").iterdir()) == ["secret"], "tar left the tree"


def test_the_config_of_a_backup_is_the_one_of_the_node(ground: Path) -> None:
    (ground / "tree/etc").mkdir()
    (ground / "tree/etc/vzdump").symlink_to(ground / "other")
    said, archive = packed(ground)
    assert b"what another agent knows" not in archive
    assert said.startswith("Total bytes written"), said
    file = ground / "vzdump-lxc-100-x.tar"
    assert packing.config_in(file) == "arch: amd64\n"
    with tarfile.open(file) as listing:
        assert listing.getnames()[:2] == ["./etc/vzdump/pct.conf", "./etc/vzdump/pct.fw"]
    into = ground / "into"
    into.mkdir()
    os.chown(into, FIRST_ID, FIRST_ID)
    packing.unpack(Archive("local:backup/x", file), into, task())
    assert sorted(path.name for path in (ground / "other").iterdir()) == ["secret"], "tar left the tree"


def test_an_odd_name_in_the_log_of_a_backup_is_escaped(ground: Path) -> None:
    (ground / "tree" / ODD).touch(mode=0o000)  # of the host's root, so tar cannot read it
    said, archive = packed(ground)
    assert "Cannot open: Permission denied" in said
    assert all(line.isprintable() for line in said.split("\n")), repr(said)
    assert said.endswith("failed: exit code 2")
    assert archive == b""
    assert sorted(path.name for path in ground.iterdir()) == ["other", "tree"], "a failed backup left a file"


def test_odd_names_come_back(ground: Path) -> None:
    (ground / "tree" / ODD).write_text("odd")
    os.mkfifo(ground / "tree/pipe")
    (ground / "tree/--checkpoint-action=exec=sh").write_text("option")
    packed(ground)
    into = ground / "into"
    into.mkdir()
    os.chown(into, FIRST_ID, FIRST_ID)
    packing.unpack(Archive("local:backup/x", ground / "vzdump-lxc-100-x.tar"), into, task())
    assert (into / ODD).read_text() == "odd"
    assert (into / "pipe").is_fifo()
    assert (into / "--checkpoint-action=exec=sh").read_text() == "option"
