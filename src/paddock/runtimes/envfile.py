"""Environment files in the form that systemd and a shell read: one ``NAME="value"`` per line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paddock.secret import Secret
from paddock.visible import lines

_SPECIAL: Final = re.compile(r'([\\"`$])')
_ESCAPED: Final = re.compile(r"\\(.)")


def quote(value: str) -> str:
    """Return the value in double quotes, with the special characters of systemd and a shell escaped."""
    return '"' + _SPECIAL.sub(r"\\\1", value) + '"'


def dump(values: Mapping[str, Secret]) -> str:
    """Return the text of an environment file."""
    return "".join(f"{name}={quote(value.reveal())}\n" for name, value in sorted(values.items()))


def parse(text: str) -> dict[str, Secret]:
    """Return the values of a text from ``dump``, or of plain ``NAME=value`` lines."""
    values: dict[str, Secret] = {}
    for line in lines(text):
        name, _, value = line.partition("=")
        if value[:1] == '"':
            value = _ESCAPED.sub(r"\1", value[1:-1])
        values[name] = Secret(value)
    return values
