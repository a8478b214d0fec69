"""What commands at the node's console share: options, and how a command ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int = 0
    out: str = ""
    err: str = ""


class UsageError(Exception):
    """A command line that cannot be understood."""


def parse_options(rest: list[str]) -> dict[str, str]:
    """Options as Proxmox's tools take them: one or two dashes, with a value, or as a flag."""
    options: dict[str, str] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument '{word}'")
        key, separator, value = word.lstrip("-").partition("=")
        if not separator:
            value = words.pop(0) if words and not words[0].startswith("-") else "1"
        options[key] = value
    return options
