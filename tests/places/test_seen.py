from __future__ import annotations

import pytest

from paddock.places.proxmox.node.observation import LxcContainer, Mount


@pytest.mark.parametrize(
    ("text", "volume", "owner", "path", "size"),
    [
        ("local-lvm:vm-999-disk-1,mp=/home/x,size=8G", "local-lvm:vm-999-disk-1", 999, "/home/x", "8G"),
        ("volume=local-lvm:vm-999-disk-1,mp=/x", "local-lvm:vm-999-disk-1", 999, "/x", None),
        ("local-lvm:base-120-disk-0/vm-105-disk-0,size=8G", "local-lvm:base-120-disk-0/vm-105-disk-0", 105, None, "8G"),
        ("dir:105/vm-105-disk-0.raw,size=4G", "dir:105/vm-105-disk-0.raw", 105, None, "4G"),
        ("zfs:subvol-105-disk-0,size=4G", "zfs:subvol-105-disk-0", 105, None, "4G"),
        ("local-lvm:vm-999-home", "local-lvm:vm-999-home", 999, None, None),
        ("/mnt/hdd,mp=/data", "/mnt/hdd", None, "/data", None),
        ("/dev/sdb1,mp=/data", "/dev/sdb1", None, "/data", None),
    ],
)
def test_a_mount_names_the_owner_of_its_volume(
    text: str, volume: str, owner: int | None, path: str | None, size: str | None
) -> None:
    mount = Mount.from_config("mp0", text)
    found = (mount.volume, mount.owner, mount.path, str(mount.size) if mount.size else None)
    assert found == (volume, owner, path, size)


def test_only_volume_keys_are_mounts() -> None:
    config = {
        "rootfs": "l:vm-1-disk-0",
        "mp0": "l:vm-2-disk-0,mp=/x",
        "unused3": "l:vm-1-disk-4",
        "mpx": "no",
        "net0": "no",
    }
    assert [mount.key for mount in LxcContainer(105, "stopped", config).mounts] == ["mp0", "rootfs", "unused3"]
