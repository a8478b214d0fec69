"""Check and fill the template of backups' notes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pvebox.errors import ParameterError

_ESCAPE = re.compile(r"\\(.)")
_VARIABLE = re.compile(r"\{\{([^\s{}]+)\}\}")
_KNOWN = ("cluster", "guestname", "node", "vmid")


def require_valid(template: str) -> None:
    """Raise Proxmox's parameter error if the template has a line feed, an unknown escape or an unknown variable."""
    if "\n" in template:
        raise ParameterError({"notes-template": "contains a line feed"})
    problems = [
        f"escape sequence '\\{found[1]}' at char {found.start()}"
        for found in _ESCAPE.finditer(template)
        if found[1] not in "n\\"
    ]
    problems += [
        # Proxmox counts to the end of the match, less the length of the name.
        f"variable '{found[1]}' at char {found.end() - len(found[1])}"
        for found in _VARIABLE.finditer(template)
        if found[1] not in _KNOWN
    ]
    if problems:
        raise ParameterError({"notes-template": f"found unknown: {', '.join(problems)}\n"})


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the notes of a backup: the template with its escapes and variables replaced."""
    text = _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], template)
    return re.sub(rf"\{{\{{({'|'.join(values)})\}}\}}", lambda found: values[found[1]], text)
