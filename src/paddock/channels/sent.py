"""Texts that are sent to machines: Python programs, and shell scripts with their libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

_LOADER: Final = """\
import sys, types
for name, source in {sources!a}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""
_IMPORTED: Final = re.compile(r"^ *from (paddock\.[\w.]+) import", re.MULTILINE)
# `Sent` itself, not an instance, finds modules and loads them.
_ON_DEMAND: Final = """\
import sys
sources = {sources!a}
class Sent:
    def find_spec(name, path=None, target=None):
        if any((each + ".").startswith(name + ".") for each in sources):
            return type(sys.__spec__)(name, Sent, is_package=name not in sources)
    def create_module(spec):
        return None
    def exec_module(module):
        exec(compile(sources.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent)
__import__({main!r})
sys.modules[{main!r}].main()
"""


def program(main: str, names: Mapping[str, str] | None = None) -> str:
    """Return a program that calls ``main()`` of a module, and has the modules of Paddock that it imports.

    It is the argument of ``python3 -I -c``. The machine does not need Paddock. ``names`` are the names that
    packages had in an earlier version, with which the text stays the same.
    """
    sources = [(name, source(name)) for name in _needed(main)]
    for now, before in (names or {}).items():
        sources = [(name.replace(now, before), text.replace(now, before)) for name, text in sources]
    return _LOADER.format(sources=sources)


def on_demand(main: str) -> str:
    """Return a program that calls ``main()`` of a module, and loads the others when they are imported.

    It is the argument of ``python3 -I -S -c``. Bundles have programs of the other form, which therefore stays as it is.
    """
    return _ON_DEMAND.format(sources={name: source(name) for name in _needed(main)}, main=main)


def _needed(main: str) -> list[str]:
    """Return a module and its imports, each after its own imports."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for imported in _IMPORTED.findall(source(name)):
            if imported not in found:
                add(imported)
        found[name] = None

    add(main)
    return list(found)


@cache
def source(module: str) -> str:
    """Return a module of ``paddock.onboard``, the only package that machines get anything of."""
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_text(encoding="utf-8")


_SCRIPTS: Final = resources.files("paddock.onboard.shell")
_SOURCED: Final = re.compile(r"^\. \./(\S+)\n", re.MULTILINE)


def script(name: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the argv that runs a script with these arguments."""
    return ["sh", "-c", text(name), "paddock", *arguments]


@cache
def text(name: str) -> str:
    """Return a script in which each library replaces the first line that sources it."""
    return _resolved(name, set())


def _resolved(name: str, included: set[str]) -> str:
    included.add(name)

    def library(line: re.Match[str]) -> str:
        sourced = line.group(1)
        return "" if sourced in included else _resolved(sourced, included)

    return _SOURCED.sub(library, (_SCRIPTS / name).read_text(encoding="utf-8"))
