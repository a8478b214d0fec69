"""The options of a container's config, with their schemas."""

from __future__ import annotations

from typing import Final

from pvebox.api import formats
from pvebox.api.schema import FLAG, Prop, Properties

MOUNT_POINTS: Final = 256
NETWORKS: Final = 32
DEVICES: Final = 256


ROOTFS: Final[Properties] = {
    "volume": Prop(format=formats.mount_path, default_key=True),
    "size": Prop(format=formats.disk_size, optional=True),
    "acl": FLAG,
    "idmap": Prop(optional=True),
    "keepattrs": FLAG,
    "mountoptions": Prop(
        optional=True,
        pattern=r"(discard|lazytime|noatime|nodev|noexec|nosuid)(;(discard|lazytime|noatime|nodev|noexec|nosuid))*",
    ),
    "quota": FLAG,
    "replicate": FLAG,
    "ro": FLAG,
    "shared": FLAG,
}

MOUNT_POINT: Final[Properties] = {
    **ROOTFS,
    "backup": FLAG,
    "mp": Prop(format=formats.mount_path),
}

NETWORK: Final[Properties] = {
    "type": Prop(optional=True, enum=("veth",)),
    "name": Prop(pattern=r"[-_.\w\d]+"),
    "bridge": Prop(optional=True, pattern=r"[-_.\w\d]+"),
    "hwaddr": Prop(
        optional=True,
        format=formats.mac_address,
    ),
    "mtu": Prop(type="integer", optional=True, minimum=64, maximum=65535),
    "ip": Prop(optional=True, format=formats.ipv4_config),
    "gw": Prop(optional=True, format=formats.ipv4),
    "ip6": Prop(optional=True, format=formats.ipv6_config),
    "gw6": Prop(optional=True, format=formats.ipv6),
    "firewall": FLAG,
    "host-managed": FLAG,
    "link_down": FLAG,
    "rate": Prop(type="number", optional=True),
    "tag": Prop(type="integer", optional=True, minimum=1, maximum=4094),
    "trunks": Prop(optional=True, pattern=r"\d+(?:;\d+)*"),
}

FEATURES: Final[Properties] = {
    "force_rw_sys": FLAG,
    "fuse": FLAG,
    "keyctl": FLAG,
    "mknod": FLAG,
    "mount": Prop(optional=True, pattern=r"[a-zA-Z0-9_; ]+"),
    "nesting": FLAG,
}

DEVICE: Final[Properties] = {
    "path": Prop(optional=True, default_key=True, format=formats.device_path),
    "deny-write": FLAG,
    "gid": Prop(type="integer", optional=True, minimum=0),
    "mode": Prop(optional=True, pattern=r"0[0-7]{3}"),
    "uid": Prop(type="integer", optional=True, minimum=0),
}

_OPTIONS: Final[dict[str, Prop]] = {
    "arch": Prop(optional=True, enum=("amd64", "i386", "arm64", "armhf", "riscv32", "riscv64")),
    "cmode": Prop(optional=True, enum=("shell", "console", "tty")),
    "console": FLAG,
    "cores": Prop(type="integer", optional=True, minimum=1, maximum=8192),
    "cpulimit": Prop(type="number", optional=True, minimum=0, maximum=8192),
    "cpuunits": Prop(type="integer", optional=True, minimum=0, maximum=500000),
    "debug": FLAG,
    "description": Prop(optional=True, max_length=8192),
    "entrypoint": Prop(optional=True),
    "env": Prop(optional=True),
    "features": Prop(optional=True, format=FEATURES),
    "hookscript": Prop(optional=True, format=formats.volume_id),
    "hostname": Prop(optional=True, format=formats.dns_name, max_length=255),
    "lock": Prop(
        optional=True,
        enum=(
            "backup",
            "create",
            "destroyed",
            "disk",
            "fstrim",
            "migrate",
            "mounted",
            "rollback",
            "snapshot",
            "snapshot-delete",
        ),
    ),
    "memory": Prop(type="integer", optional=True, minimum=16),
    "nameserver": Prop(optional=True, format=formats.list_of(formats.nameserver)),
    "onboot": FLAG,
    "ostype": Prop(
        optional=True,
        enum=(
            "debian",
            "devuan",
            "ubuntu",
            "centos",
            "fedora",
            "opensuse",
            "archlinux",
            "alpine",
            "gentoo",
            "nixos",
            "unmanaged",
        ),
    ),
    "protection": FLAG,
    "rootfs": Prop(optional=True, format=ROOTFS),
    "searchdomain": Prop(optional=True, format=formats.list_of(formats.dns_name)),
    "startup": Prop(optional=True, format=formats.startup_order),
    "swap": Prop(type="integer", optional=True, minimum=0),
    "tags": Prop(optional=True, format=formats.list_of(formats.tag)),
    "template": FLAG,
    "timezone": Prop(optional=True, format=formats.timezone),
    "tty": Prop(type="integer", optional=True, minimum=0, maximum=6),
    "unprivileged": FLAG,
    **{f"mp{n}": Prop(optional=True, format=MOUNT_POINT) for n in range(MOUNT_POINTS)},
    **{f"unused{n}": Prop(optional=True, format=formats.volume_id) for n in range(MOUNT_POINTS)},
    **{f"net{n}": Prop(optional=True, format=NETWORK) for n in range(NETWORKS)},
    **{f"dev{n}": Prop(optional=True, format=DEVICE) for n in range(DEVICES)},
}

# Proxmox sets these options itself; requests cannot.
_INTERNAL: Final[dict[str, Prop]] = {
    "parent": Prop(optional=True, format=formats.configid, max_length=40),
    "snaptime": Prop(type="integer", optional=True, minimum=0),
}

SETTABLE: Final[Properties] = _OPTIONS
STORED: Final[Properties] = {**_OPTIONS, **_INTERNAL}

MOUNT_KEYS: Final[tuple[str, ...]] = ("rootfs", *(f"mp{n}" for n in range(MOUNT_POINTS)))
UNUSED_KEYS: Final[tuple[str, ...]] = tuple(f"unused{n}" for n in range(MOUNT_POINTS))
