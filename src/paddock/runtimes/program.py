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


def program(*modules: str) -> str:
    """Return a program that loads these modules in order and calls ``main()`` of the last one.

    It is the argument of ``python3 -I -c``. Modules may import earlier ones by their full names; the machine does not
    need Paddock.
    """
    return _LOADER.format(sources=[(name, _source(name)) for name in modules])


def on_demand(*modules: str) -> str:
    """Return a program that calls ``main()`` of the last module, and loads the others when they are imported.

    It is the argument of ``python3 -I -S -c``. Bundles have programs of the other form, which therefore stays as it is.
    """
    return _ON_DEMAND.format(sources={name: _source(name) for name in modules}, main=modules[-1])


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_text(encoding="utf-8")
