"""Mount points: the text of `rootfs` and `mpN`, taken apart and put together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from .config import Value
from .errors import OperationError
from .formats import format_size, parse_size
from .options import MOUNT_KEYS, MOUNT_POINT, ROOTFS, UNUSED_KEYS
from .schema import FormatError, parse_property_string, print_property_string

_NEW_DISK = re.compile(r"([^:\s]+):(\d+(?:\.\d+)?)\Z")
_BARE_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


class MountType(StrEnum):
    """Where a mount point's content comes from."""

    VOLUME = "volume"
    BIND = "bind"
    DEVICE = "device"


@dataclass(frozen=True)
class MountPoint:
    """One mount point, as its config text says."""

    key: str
    volume: str
    path: str
    attributes: Mapping[str, str]

    @property
    def type(self) -> MountType:
        """Volume, bind or device, told apart by how the source is written."""
        if self.volume.startswith("/dev/"):
            return MountType.DEVICE
        return MountType.BIND if self.volume.startswith("/") else MountType.VOLUME

    @property
    def size(self) -> int | None:
        """The size written in the text, in bytes."""
        text = self.attributes.get("size")
        return None if text is None else parse_size(text)

    @property
    def read_only(self) -> bool:
        """Whether the container may only read it."""
        return self.attributes.get("ro") == "1"

    @property
    def backed_up(self) -> bool:
        """Whether a backup includes it."""
        return self.key == "rootfs" or (self.type is MountType.VOLUME and self.attributes.get("backup") == "1")

    def on(self, volume: str, size: int | None) -> MountPoint:
        """The same mount point on another volume, with that volume's size."""
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
    """The mount point a config value describes."""
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
    """The mount points of a config, rootfs first; unparseable ones are passed over, as Proxmox does."""
    for key in MOUNT_KEYS:
        value = options.get(key)
        if value is None:
            continue
        try:
            yield parse(key, str(value))
        except OperationError:
            continue


def volumes_of(options: Mapping[str, Value]) -> list[str]:
    """The volume ids a config mounts."""
    return [point.volume for point in mount_points(options) if point.type is MountType.VOLUME]


def new_disk(volume: str) -> tuple[str, int] | None:
    """Storage and bytes, if the text asks for a new volume (`store:GiB`)."""
    found = _NEW_DISK.match(volume)
    return (found[1], int(float(found[2]) * (1 << 30))) if found else None


def is_bare_number(text: str) -> bool:
    """Whether the text is a size without a storage."""
    return bool(_BARE_NUMBER.match(text))


def add_unused(options: dict[str, Value], volume: str) -> str | None:
    """Note a volume as unused under the first free key, unless it already is; return the key."""
    if any(options.get(key) == volume for key in UNUSED_KEYS):
        return None
    for key in UNUSED_KEYS:
        if key not in options:
            options[key] = volume
            return key
    raise OperationError("Too many unused volumes - please delete them first.")


def drop_used_from_unused(options: dict[str, Value]) -> None:
    """Remove unused entries whose volume is mounted again."""
    used = set(volumes_of(options))
    for key in UNUSED_KEYS:
        if options.get(key) in used:
            del options[key]
