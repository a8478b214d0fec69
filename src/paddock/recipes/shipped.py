"""Files that Paddock ships with its recipes."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def text(package: str, path: str) -> str:
    """Return the text of a file of a package. It is read once: many agents of a file need the same one."""
    return (resources.files(package) / path).read_text(encoding="utf-8")
