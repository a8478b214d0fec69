"""The shell scripts of this package, each as one text.

A script sources its libraries by name, with a line such as ``. ./systemd/units.sh``. Paths are relative to this
folder. A machine gets the script and its libraries as one text: no library is installed there, so that none can be
replaced there.

Each script begins with a comment that names its arguments, and gives them names at once. Each library begins with a
comment that names the variables it expects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

_SCRIPTS: Final = resources.files(__package__)
_SOURCED: Final = re.compile(r"^\. \./(\S+)\n", re.MULTILINE)


def script(name: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the argv that runs a script with these arguments."""
    return ["sh", "-c", text(name), "paddock", *arguments]


@cache
def text(name: str) -> str:
    """Return a script with each library in the place of the first line that sources it."""
    return _resolved(name, set())


def _resolved(name: str, included: set[str]) -> str:
    included.add(name)

    def library(line: re.Match[str]) -> str:
        sourced = line.group(1)
        return "" if sourced in included else _resolved(sourced, included)

    return _SOURCED.sub(library, (_SCRIPTS / name).read_text(encoding="utf-8"))
