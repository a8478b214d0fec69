"""The code of an agent: a Python package with everything it needs, at locked versions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from paddock.base.frozen import frozen


@frozen
class LocalCode:
    """A wheel or a folder of sources on this machine."""

    path: Path
    digest: str  # hash of the contents


@frozen
class Distribution:
    """A version of a Python package with extras, from the package index or from this machine."""

    name: str
    version: str
    extras: Sequence[str]
    beside: Sequence[str] = ()  # packages that it needs but does not depend on
    local: LocalCode | None = None
    without: Sequence[str] = ()  # packages that it depends on, but that are not installed
    added: Sequence[str] = ()  # packages that the file adds, with or without a version

    @property
    def lock(self) -> str:
        """The file name of the package's lock."""
        return f"{self.name}-{self.version}{self.selection}.txt"

    @property
    def selection(self) -> str:
        """The end of the lock's name: the selected extras, and a hash of added packages."""
        return "".join(f"+{each}" for each in self._selected)

    @property
    def selected(self) -> frozenset[str]:
        """The extras, and a hash of the added packages."""
        return frozenset(self._selected)

    @property
    def _selected(self) -> Sequence[str]:
        added = hashlib.sha256("\n".join(self.added).encode()).hexdigest()[:8]
        return (*self.extras, *([f"with-{added}"] if self.added else []))

    @property
    def requirement(self) -> str:
        """The package's name with its extras, in the form that installers accept."""
        return f"{self.name}[{','.join(self.extras)}]" if self.extras else self.name


@frozen
class Tool:
    """A program from an npm package, installed with the code: one file of the package's archive per architecture.

    The archive is downloaded from the registry that this machine is configured for, and its hash is verified.
    """

    name: str
    version: str
    sha512: str
    files: Mapping[str, str]


@frozen
class Toolchain:
    """Programs from one Python package without dependencies, installed with the code: Node, or uv."""

    lock: str  # the package at its version, with hashes
    programs: Mapping[str, Sequence[str]]  # the command of each program, by its name: paths below the packages


@frozen
class CodeTree:
    """A Python package with all its dependencies, at locked versions with hashes."""

    distribution: Distribution
    lock: str
    pythons: Sequence[str]  # versions of Python that it runs on, the best first
    proof: Sequence[str]  # arguments for its Python that exit with 0 if the code is usable
    tools: Sequence[Tool] = ()
    toolchains: Sequence[Toolchain] = ()
    folders: Sequence[str] = ()  # folders of the package's sources that its wheel does not have

    @property
    def id(self) -> str:
        """The tree's name: a hash of everything that goes into it. The lock has the hash of the sources too."""
        local = self.distribution.local
        parts = ["2", local.digest if local else "", *(tool.sha512 for tool in self.tools)]
        parts += [*(f"folder {each}" for each in self.folders), self.lock, *(each.lock for each in self.toolchains)]
        return _hashed(tuple(parts))[:12]


@cache
def _hashed(parts: tuple[str, ...]) -> str:
    """Return the hash of a tree's parts. A lock is long, and many agents of a file have the same one."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
