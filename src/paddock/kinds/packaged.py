"""The base for kinds whose code is a Python package, installed from a lock with versions and hashes."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import Field, model_validator

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.file.kinds import FileView, Mistake
from paddock.file.models.agent import AgentSpec
from paddock.file.models.fields import LocalPath, PythonPackage, Version, no_items, no_keys
from paddock.file.referenced import text_of, unreadable
from paddock.file.rules.literals import suspects
from paddock.file.tree import dotted, grafted, read
from paddock.kinds.code import CodeTree, Distribution, LocalCode, Tool, Toolchain
from paddock.kinds.contract import BaseRecipe

_PACKAGE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)(?: *; *([\x20-\x7e]*?))?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@frozen
class Package:
    """A package of a lock."""

    name: str
    version: str
    marker: str  # where it is installed; empty if everywhere
    hashes: Sequence[str]  # SHA-256 of each file that may be installed


def packages(lock: str) -> list[Package]:
    """Return the packages of a lock in order. Another line than uv writes is an error."""
    found: list[Package] = []
    for number, line in enumerate(lock.split("\n"), 1):
        words = line.removesuffix("\\").strip()
        if not words or words.startswith("#"):
            continue
        if found and (hashed := _HASH.fullmatch(words)):
            found[-1] = replace(found[-1], hashes=(*found[-1].hashes, hashed[1]))
        elif package := _PACKAGE.fullmatch(words):
            found.append(Package(normal(package[1]), package[2], package[3] or "", ()))
        else:
            what = f"line {number} of the lock is no package with a version"
            raise BadInput(what, hint="`paddock template lock AGENT` writes a lock")
    return found


def normal(name: str) -> str:
    """Return a package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


LOCKS: Final = "locks"  # folder beside the file, for locks that Paddock does not ship

_NOT_SOURCE: Final = re.compile(r"\.|__pycache__$|node_modules$|build$|dist$|.*\.egg-info$")


class PackagedSpec(AgentSpec):
    """An agent whose code is a Python package with its own configuration."""

    expanded: ClassVar[Mapping[str, str | None]] = {
        **AgentSpec.expanded,
        "settings": "name it under secrets: and write ${NAME} here",
    }

    version: Version | None = Field(
        None,
        description="version of the package, from the package index; with container.image, the one it must have",
    )
    package: LocalPath | None = Field(
        None, description="a wheel or a folder of sources to install, instead of a version"
    )
    extras: list[str] = Field(
        default_factory=no_items, description="more extras of the package, beside those that other keys need"
    )
    python_packages: list[PythonPackage] = Field(
        default_factory=no_items,
        description="more Python packages for its code, like plugins: NAME or NAME==VERSION;"
        " `paddock template lock` makes the lock that they need",
    )
    settings: dict[str, Any] = Field(
        default_factory=no_keys, description="the program's own configuration; Paddock passes it on"
    )
    config_file: LocalPath | None = Field(
        None, description="a YAML file with the program's configuration, instead of settings"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.version is None and self.package is None and not self.image_brings_code:
            raise ValueError("needs version: or package:")
        if self.version is not None and self.package is not None:
            raise ValueError("version and package are two sources of the code; keep one")
        if self.config_file is not None and self.settings:
            raise ValueError("settings and config_file are two sources of the configuration; keep one")
        return self

    def with_texts(self, text_of: Callable[[Path], str]) -> Self:
        agent = super().with_texts(text_of)
        if self.config_file is None:
            return agent
        tree = read(text_of(self.config_file), str(self.config_file))
        return agent.model_copy(update={"settings": tree.data or {}, "config_file": None})


OwnPackagedSpec = TypeVar("OwnPackagedSpec", bound=PackagedSpec)


class PackagedRecipe(BaseRecipe[OwnPackagedSpec], ABC):
    """A recipe with defaults for a Python package that is installed from a lock.

    A kind adds ``model``, ``package``, ``locks``, ``proof``, ``workload`` and ``probes``.
    """

    package: str  # the package's name in the package index
    pythons: Sequence[str] = ("3.11", "3.12", "3.13")  # versions of Python that it runs on, the best first
    beside: Sequence[str] = ()  # packages that it needs but does not depend on
    without: Sequence[str] = ()  # packages that it depends on and runs without; they have no wheels

    @property
    @abstractmethod
    def locks(self) -> Traversable:
        """The folder with the locks that Paddock ships for this kind."""

    @abstractmethod
    def proof(self, wanted: Distribution) -> Sequence[str]:
        """Return arguments for the installed Python that exit with 0 if the code is usable, without side effects."""

    def extras(self, agent: OwnPackagedSpec) -> Iterable[str]:
        """Return the extras that the agent's other keys need."""
        return ()

    def tools(self, agent: OwnPackagedSpec) -> Sequence[Tool]:
        """Return programs from npm packages to install with the code."""
        return ()

    def toolchains(self, agent: OwnPackagedSpec) -> Sequence[Toolchain]:
        """Return programs from other Python packages to install with the code."""
        return ()

    def folders(self, agent: OwnPackagedSpec) -> Sequence[str]:
        """Return folders of the package's sources to install with the code, because its wheel does not have them."""
        return ()

    def settings_mistakes(self, agent: OwnPackagedSpec, settings: Mapping[str, Any]) -> Iterable[Mistake]:
        """Return the mistakes in the program's configuration, with locations relative to the settings."""
        return ()

    def validate(self, name: str, agent: OwnPackagedSpec, file: FileView) -> Iterator[Mistake]:
        for location, sentence in self.settings_mistakes(agent, agent.settings):
            yield ("settings", *location), sentence
        if file.folder is None:
            return
        if agent.package is not None and not (file.folder / agent.package.expanduser()).is_dir():
            yield from unreadable(("package",), file.folder, agent.package)
        if agent.config_file is not None:
            for problem in self._config_problems(agent, file.folder, agent.config_file):
                yield ("config_file",), problem

    def distribution(self, agent: OwnPackagedSpec, folder: Path) -> Distribution:
        chosen, added = self._chosen(agent), sorted(agent.python_packages)
        if agent.package is None:
            return Distribution(
                self.package, str(agent.version), chosen, self.beside, without=self.without, added=added
            )
        path = folder / agent.package.expanduser()
        found, version = _of_folder(path) if path.is_dir() else _of_wheel(path)
        if normal(found) != self.package:
            raise BadInput(
                f"package: {agent.package} is {found}, and an agent of kind {agent.kind} runs {self.package}"
            )
        local = LocalCode(path.absolute(), _digest(path))
        return Distribution(self.package, version, chosen, self.beside, local, self.without, added)

    def code(self, agent: OwnPackagedSpec, folder: Path) -> CodeTree:
        wanted = self.distribution(agent, folder)
        lock = _lock(wanted, folder / LOCKS, self._shipped_locks)
        return CodeTree(
            wanted,
            lock,
            self.pythons,
            self.proof(wanted),
            self.tools(agent),
            self.toolchains(agent),
            folders=() if is_wheel(wanted.local) else self.folders(agent),
        )

    def versions(self, agent: OwnPackagedSpec, folder: Path) -> list[str]:
        wanted = Distribution(self.package, "", self._chosen(agent), added=sorted(agent.python_packages)).selected
        own = [lock for lock in _locks_in(folder / LOCKS, self.package) if lock.selected == wanted]
        shipped = [lock for lock in self._shipped_locks if lock.selected >= wanted]
        found = {lock.version for lock in (*own, *shipped)}
        return sorted(found, key=lambda version: [int(part) for part in version.split(".")])

    def unready(self, agent: OwnPackagedSpec, folder: Path) -> Iterator[Mistake]:
        if agent.runtime.is_engine and agent.container.image:
            return
        try:
            self.code(agent, folder)
        except BadInput as error:
            hint = f"; {error.hint}" if error.hint else ""
            yield ("package" if agent.package else "version",), error.message + hint

    @cached_property
    def _shipped_locks(self) -> Sequence[_Lock]:
        """The locks that Paddock ships, which all agents of a file share."""
        return list(_locks_in(self.locks, self.package))

    def _chosen(self, agent: OwnPackagedSpec) -> list[str]:
        return sorted({*agent.extras, *self.extras(agent)})

    def _config_problems(self, agent: OwnPackagedSpec, folder: Path, path: Path) -> Iterator[str]:
        # Hermes ignores a configuration that it cannot read and uses its defaults, so the file is validated here.
        text, problem = text_of(folder, path)
        if problem:
            yield problem
            return
        try:
            tree = read(text, str(path))
        except BadInput as error:
            yield error.message
            return
        if not isinstance(tree.data, dict):
            yield f"{path} is not a mapping"
            return
        yield from (f"{origin}: {dotted(origin.path)} {sentence}" for origin, sentence in tree.mistakes)
        at = ("agents", "", "settings")
        grown = grafted(tree, at)
        found = [*suspects(grown, lambda _: agent.expanded)]
        found += [((*at, *location), sentence) for location, sentence in self.settings_mistakes(agent, tree.data)]
        for location, sentence in found:
            origin = grown.origin(location)
            yield f"{origin}: {dotted(origin.path)} {sentence}"


@frozen
class _Lock:
    """The content of a lock's file name."""

    file: Traversable
    version: str
    selected: frozenset[str]  # extras, and a hash of the packages that a file adds


@cache
def _shipped_text(lock: _Lock) -> str:
    return lock.file.read_text(encoding="utf-8")


def _locks_in(folder: Traversable, package: str) -> Iterator[_Lock]:
    name = re.compile(rf"{re.escape(package)}-([0-9]+(?:\.[0-9]+)*)((?:\+[^+]+)*)\.txt")
    for each in folder.iterdir() if folder.is_dir() else ():
        if match := name.fullmatch(each.name):
            yield _Lock(each, match[1], frozenset(match[2].split("+")[1:]))


def is_wheel(local: LocalCode | None) -> bool:
    """Whether the code is a wheel on this machine. Nothing says where its sources are."""
    return local is not None and not local.path.is_dir()


def _lock(wanted: Distribution, own: Path, shipped: Sequence[_Lock]) -> str:
    """Return the lock in the folder beside the file, otherwise the smallest shipped one with all wanted extras."""
    if (own / wanted.lock).is_file():
        return (own / wanted.lock).read_text(encoding="utf-8")
    fitting = [lock for lock in shipped if lock.version == wanted.version and lock.selected >= wanted.selected]
    if fitting:
        return _shipped_text(min(fitting, key=lambda lock: len(lock.selected)))
    raise BadInput(
        f"there is no lock {LOCKS}/{wanted.lock}, and Paddock ships none",
        hint=f"`paddock template lock AGENT` creates it; Paddock ships locks {_shipped(shipped, wanted.version)}",
    )


def _shipped(locks: Sequence[_Lock], version: str) -> str:
    extras = {extra for lock in locks if lock.version == version for extra in lock.selected}
    if extras:
        return f"for {version} with the extras {', '.join(sorted(extras))}"
    return f"for {', '.join(sorted({lock.version for lock in locks}))}"


def _of_wheel(path: Path) -> tuple[str, str]:
    words = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(words) not in (5, 6):
        raise BadInput(
            f"{path.name} is not a wheel", hint="a package is a file NAME-VERSION-….whl, or a folder of sources"
        )
    return words[0], words[1]


def _of_folder(path: Path) -> tuple[str, str]:
    import tomllib

    try:
        project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["name"]), str(project["version"])
    except OSError as error:
        raise BadInput(f"cannot read {path}/pyproject.toml: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"{path}/pyproject.toml: {error}") from None
    except KeyError as error:
        raise BadInput(
            f"{path}/pyproject.toml does not have the project's {error}",
            hint="build a wheel from the folder, and write the wheel as package:",
        ) from None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sources(path) if path.is_dir() else [path]:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(path)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def sources(folder: Path) -> Iterator[Path]:
    """Yield the files of a source folder in order, without hidden files and build results."""
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _NOT_SOURCE.match(each))
        yield from (Path(above) / name for name in sorted(files) if not name.startswith("."))
