"""Parse and print mount points, the values of `rootfs` and `mpN`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pvebox.api.errors import OperationError
from pvebox.api.formats import format_size, parse_size
from pvebox.api.schema import FormatError, parse_property_string, print_property_string
from pvebox.guests.config import Value
from pvebox.guests.options import MOUNT_KEYS, MOUNT_POINT, ROOTFS, UNUSED_KEYS

_MOUNT_ORDER = {key: number for number, key in enumerate(MOUNT_KEYS)}
_UNUSED = frozenset(UNUSED_KEYS)
_NEW_DISK = re.compile(r"([^:\s]+):(\d+(?:\.\d+)?)\Z")
_BARE_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


class MountType(StrEnum):
    """The kind of a mount point's source."""

    VOLUME = "volume"
    BIND = "bind"
    DEVICE = "device"


@dataclass(frozen=True)
class MountPoint:
    """One mount point of a config."""

    key: str
    volume: str
    path: str
    attributes: Mapping[str, str]

    @property
    def type(self) -> MountType:
        """The kind of the source: a volume, a directory of the node or a device of the node."""
        if self.volume.startswith("/dev/"):
            return MountType.DEVICE
        return MountType.BIND if self.volume.startswith("/") else MountType.VOLUME

    @property
    def size(self) -> int | None:
        """The size in bytes that the config states, or None."""
        text = self.attributes.get("size")
        return None if text is None else parse_size(text)

    @property
    def read_only(self) -> bool:
        """Whether the mount is read-only."""
        return self.attributes.get("ro") == "1"

    @property
    def backed_up(self) -> bool:
        """Whether backups include this mount point."""
        return self.key == "rootfs" or (self.type is MountType.VOLUME and self.attributes.get("backup") == "1")

    def on(self, volume: str, size: int | None) -> MountPoint:
        """Return a copy of the mount point with another volume and its size."""
        attributes = {key: value for key, value in self.attributes.items() if key != "size"}
        if size is not None:
            attributes["size"] = format_size(size)
        return replace(self, volume=volume, attributes=attributes)

    def __str__(self) -> str:
        parts = {"volume": self.volume, **self.attributes}
        if self.key != "rootfs":
            parts["mp"] = self.path
        return print_property_string(parts, MOUNT_POINT)


def parse(key: str, text: str) -> MountPoint:
    """Parse the value of `rootfs` or `mpN`."""
    try:
        parts = parse_property_string(text, ROOTFS if key == "rootfs" else MOUNT_POINT)
    except FormatError as error:
        raise OperationError(str(error)) from None
    volume = parts.pop("volume")
    path = "/" if key == "rootfs" else parts.pop("mp")
    if "size" in parts:
        parts["size"] = format_size(parse_size(parts["size"]) or 0)
    return MountPoint(key, volume, path, parts)


def mount_points(options: Mapping[str, Value]) -> Iterator[MountPoint]:
    """Return the mount points of a config, rootfs first. As in Proxmox, invalid ones are skipped."""
    # A config has few of the 257 keys.
    for key in sorted(options.keys() & _MOUNT_ORDER.keys(), key=_MOUNT_ORDER.__getitem__):
        value = options.get(key)
        if value is None:
            continue
        try:
            yield parse(key, str(value))
        except OperationError:
            continue


def volumes_of(options: Mapping[str, Value]) -> list[str]:
    """Return the ids of the volumes that a config mounts."""
    return [point.volume for point in mount_points(options) if point.type is MountType.VOLUME]


def new_disk(volume: str) -> tuple[str, int] | None:
    """Return storage and bytes, in whole MiB, if the source asks for a new volume (`store:GiB`), else None."""
    found = _NEW_DISK.match(volume)
    return (found[1], int(float(found[2]) * 1024) << 20) if found else None


def is_bare_number(text: str) -> bool:
    """Return whether the source is a size without a storage."""
    return bool(_BARE_NUMBER.match(text))


def add_unused(options: dict[str, Value], volume: str) -> str | None:
    """Add a volume under the first free `unusedN` key, unless it has one already, and return the key."""
    if any(options.get(key) == volume for key in UNUSED_KEYS):
        return None
    for key in UNUSED_KEYS:
        if key not in options:
            options[key] = volume
            return key
    raise OperationError("Too many unused volumes - please delete them first.")


def drop_used_from_unused(options: dict[str, Value]) -> None:
    """Remove the `unusedN` entries of volumes that the config mounts."""
    used = set(volumes_of(options))
    for key in options.keys() & _UNUSED:
        if options[key] in used:
            del options[key]
