"""Read and write files of ``NAME=value`` lines."""

from __future__ import annotations

import re
from typing import Final

from paddock.errors import BadInput

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)")


def entries(text: str, origin: str) -> dict[str, str]:
    """Return the values by name; raise an error for a line that is neither an entry nor a comment."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            # The line is not repeated: it may be the secret.
            raise BadInput(f"line {number} of {origin} is not NAME=value")
        found[match[1]] = _unquoted(match[2].strip())
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def written(name: str, value: str) -> str:
    """Return the line of an entry, quoted where needed."""
    quoted = value != value.strip() or (len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"")
    return f'{name}="{value}"' if quoted else f"{name}={value}"
