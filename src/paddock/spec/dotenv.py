"""Read and write files of ``NAME=value`` lines."""

from __future__ import annotations

import re
from typing import Final

from paddock.errors import BadInput

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)")
# Quotes end at the first one that only a comment follows.
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1(?:\s+#.*)?""")
_COMMENT: Final = re.compile(r"\s#")


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
        value = _value(match[2])
        if value is None:
            raise BadInput(
                f"line {number} of {origin} has a # after white space, which some readers take for a comment",
                hint="put the value in quotes, or the comment on a line of its own",
            )
        found[match[1]] = value
    return found


def _value(text: str) -> str | None:
    """Return the value of an entry, or none if readers disagree on where it ends."""
    if quoted := _QUOTED.fullmatch(text.strip()):
        return quoted[2]
    return None if _COMMENT.search(text) else text.strip()


def written(name: str, value: str) -> str:
    """Return the line of an entry, quoted where needed."""
    for form in (value, f'"{value}"', f"'{value}'"):
        if _value(form) == value:
            return f"{name}={form}"
    raise BadInput(f"the value of {name} cannot be written as one line: it has a # after quotes of both kinds")
