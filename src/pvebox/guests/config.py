"""Parse and write a container's config file in Proxmox's format, byte for byte."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_from_bytes, unquote

from pvebox.api.errors import OperationError
from pvebox.api.schema import parse_boolean
from pvebox.guests.options import STORED

Value = str | int
Options = dict[str, Value]

PENDING_SECTION: Final = "pve:pending"
_SECTION = re.compile(r"\[([a-zA-Z][a-zA-Z0-9_:\-]+)\]\s*$")
_RAW_KEY = re.compile(r"(lxc\.[a-zA-Z0-9_\-.]+)(:|\s*=)\s*(.*?)\s*$")
_OPTION = re.compile(r"([a-z][a-z_]*\d*):\s*(.+?)\s*$")


@dataclass
class CtConfig:
    """A container's config: options, pending changes and snapshots."""

    options: Options = field(default_factory=dict)
    raw_lxc: list[tuple[str, str]] = field(default_factory=list)
    pending: Options = field(default_factory=dict)
    pending_delete: list[str] = field(default_factory=list)
    snapshots: dict[str, Options] = field(default_factory=dict)
    digest: str = ""

    def text(self, key: str) -> str | None:
        """Return an option as text, or None if it is not set."""
        value = self.options.get(key)
        return None if value is None else str(value)

    def flag(self, key: str) -> bool:
        """Return whether a boolean option is true."""
        return self.options.get(key) == 1

    def section(self, snapshot: str | None) -> Options:
        """Return the options, or those of a snapshot. Raise Proxmox's error if the snapshot does not exist."""
        if snapshot is None:
            return self.options
        if snapshot not in self.snapshots:
            raise OperationError(f"snapshot '{snapshot}' does not exist")
        return self.snapshots[snapshot]

    def drop_snapshot(self, name: str) -> None:
        """Remove a snapshot, if it exists. Its parent becomes the parent of its children."""
        parent = self.snapshots.pop(name, {}).get("parent")
        for section in (self.options, *self.snapshots.values()):
            if section.get("parent") == name:
                del section["parent"]
                if parent is not None:
                    section["parent"] = parent

    def require_unlocked(self) -> None:
        """Raise Proxmox's error if the config has a lock, held or left by an operation."""
        lock = self.text("lock")
        if lock:
            raise OperationError(f"CT is locked ({lock})")

    def require_unprotected(self, what: str) -> None:
        """Raise Proxmox's error if the container is protected."""
        if self.flag("protection"):
            raise OperationError(f"{what} - protection mode enabled")


def digest_of(text: str) -> str:
    """Return the config's digest, the SHA-1 of its text. Clients send it back to detect changes."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def encode_text(text: str) -> str:
    """Percent-encode a line of a description as Proxmox does in the config file."""
    safe = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in ":%")
    return quote_from_bytes(text.encode(), safe=safe)


def typed(key: str, text: str) -> Value:
    """Return a value with the type that its option has in JSON answers."""
    prop = STORED.get(key)
    if prop is None:
        return text
    if prop.type == "boolean":
        digit = parse_boolean(text)
        return int(digit) if digit is not None else text
    if prop.type == "integer" and text.isdecimal():
        return int(text)
    return text


def parse(text: str) -> CtConfig:
    """Parse the text of a config file."""
    config = CtConfig(digest=digest_of(text))
    section = config.options
    description = ""
    in_pending = False
    for line in text.split("\n"):
        if not line.strip():
            continue
        opened = _SECTION.match(line)
        if opened:
            if description:
                section["description"] = description
            description = ""
            in_pending = opened[1] == PENDING_SECTION
            section = config.pending if in_pending else config.snapshots.setdefault(opened[1], {})
        elif line.startswith("#"):
            description += unquote(line[1:].rstrip()) + "\n"
        elif raw := _RAW_KEY.match(line):
            if section is config.options:
                config.raw_lxc.append((raw[1], raw[3]))
        elif option := _OPTION.match(line):
            key, value = option[1], option[2]
            if in_pending and key == "delete":
                config.pending_delete = [name.strip() for name in value.split(",") if name.strip()]
            elif key == "description":
                description += unquote(value)
            else:
                section[key] = typed(key, value)
    if description:
        section["description"] = description
    return config


def write(config: CtConfig) -> str:
    """Return the text of a config file: description, sorted options, raw LXC keys, pending changes, snapshots."""
    text = _section_text(config.options)
    text += "".join(f"{key}: {value}\n" for key, value in config.raw_lxc)
    if config.pending or config.pending_delete:
        pending: Options = dict(config.pending)
        if config.pending_delete:
            pending["delete"] = ",".join(sorted(config.pending_delete))
        text += f"\n[{PENDING_SECTION}]\n{_section_text(pending)}"
    for name in sorted(config.snapshots):
        text += f"\n[{name}]\n{_section_text(config.snapshots[name])}"
    return text


def _section_text(options: Options) -> str:
    lines = [f"#{encode_text(line)}" for line in str(options.get("description", "")).rstrip("\n").split("\n")]
    if not options.get("description"):
        lines = []
    for key in sorted(options):
        if key == "description":
            continue
        value = str(options[key])
        if "\n" in value:
            raise OperationError(f"detected invalid newline inside property '{key}'")
        lines.append(f"{key}: {value}")
    return "".join(f"{line}\n" for line in lines)
