"""Python programs that a guest runs on the machine, sent as text."""

from __future__ import annotations

from importlib import resources
from typing import Final

_LOADER: Final = """\
import sys, types
for name, source in {sources!a}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


def program(*modules: str) -> str:
    """Return a program that loads these modules in order and calls ``main()`` of the last one.

    It is the argument of ``python3 -I -c``. Modules may import earlier ones by their full names; the machine does not
    need Paddock.
    """
    return _LOADER.format(sources=[(name, _source(name)) for name in modules])


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_text(encoding="utf-8")
