"""Files that Paddock ships. They are read once: many agents of a file need the same ones."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable


@cache
def folder(package: str, name: str) -> Traversable:
    """Return a folder of a package."""
    return resources.files(package) / name


@cache
def text(package: str, path: str) -> str:
    """Return the text of a file of a package."""
    return (resources.files(package) / path).read_text(encoding="utf-8")
