"""Agents whose code is a Python package: which one, and the lock that names all it needs with hashes."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from paddock.errors import BadInput
from paddock.recipes.workload import CodeTree, Distribution, LocalCode, Tool
from paddock.spec.models import HermesSpec, LitellmSpec

LOCKS: Final = "locks"  # folder beside the file, for locks that Paddock does not bring

_NOT_SOURCE: Final = re.compile(r"\.|__pycache__$|node_modules$|build$|dist$|.*\.egg-info$")


def distribution(
    agent: HermesSpec | LitellmSpec, name: str, folder: Path, *, extras: Iterable[str], beside: Sequence[str] = ()
) -> Distribution:
    """Return what an agent's ``version`` or ``package`` stands for; relative paths start at the folder."""
    chosen = sorted({*agent.extras, *extras})
    if agent.package is None:
        return Distribution(name, str(agent.version), chosen, beside)
    path = folder / agent.package.expanduser()
    found, version = _of_folder(path) if path.is_dir() else _of_wheel(path)
    if _normal(found) != name:
        raise BadInput(f"package: {agent.package} is {found}, and an agent of kind {agent.kind} runs {name}")
    return Distribution(name, version, chosen, beside, LocalCode(path.absolute(), _digest(path)))


def code_tree(
    wanted: Distribution,
    shipped: Traversable,
    folder: Path,
    *,
    pythons: Sequence[str],
    proof: Sequence[str],
    tools: Sequence[Tool] = (),
) -> CodeTree:
    """Return the code with its lock: the one beside the file if there is one, else the one that is shipped."""
    name = wanted.lock
    lock = next((place / name for place in (folder / LOCKS, shipped) if (place / name).is_file()), None)
    if lock is None:
        known = sorted(
            each.name.removesuffix(".txt").removeprefix(f"{wanted.name}-")
            for each in shipped.iterdir()
            if each.name.endswith(".txt")
        )
        raise BadInput(
            f"there is no lock {LOCKS}/{name}, and Paddock brings none for it",
            hint=f"it brings {', '.join(known)}; `paddock template lock AGENT` makes another",
        )
    return CodeTree(wanted, lock.read_text(encoding="utf-8"), pythons, proof, tools)


def _of_wheel(path: Path) -> tuple[str, str]:
    words = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(words) not in (5, 6):
        raise BadInput(f"{path.name} is not a wheel", hint="a package is a NAME-VERSION-….whl, or a folder of sources")
    return words[0], words[1]


def _of_folder(path: Path) -> tuple[str, str]:
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["name"]), str(project["version"])
    except OSError as error:
        raise BadInput(f"cannot read {path}/pyproject.toml: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"{path}/pyproject.toml: {error}") from None
    except KeyError as error:
        raise BadInput(
            f"{path}/pyproject.toml does not say its project's {error}",
            hint="build a wheel of it, and name that as the package",
        ) from None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sources(path) if path.is_dir() else [path]:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(path)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def sources(folder: Path) -> Iterator[Path]:
    """The files of a source folder in order, without what tools leave in one."""
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _NOT_SOURCE.match(each))
        yield from (Path(above) / name for name in sorted(files) if not name.startswith("."))
