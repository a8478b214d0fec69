"""Options and results of the commands of the node's console."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    """The result of a console command: exit code and output."""

    code: int = 0
    out: str = ""
    err: str = ""


class UsageError(Exception):
    """A console command has invalid arguments."""


def parse_options(rest: list[str]) -> dict[str, str]:
    """Parse options as Proxmox's tools do: one or two dashes, and a value or none for a flag."""
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
