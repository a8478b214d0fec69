"""The package index of this machine: the one that uv is configured for."""

from __future__ import annotations

import re
from typing import Final

from paddock.errors import PaddockError
from paddock.runtimes.codetree import WHEELS, uv

OLDEST_PYTHON: Final = "3.11"  # of the machines that Paddock supports


def newest(requirement: str, deadline: float = 60.0) -> str:
    """Return the newest version in the index that meets a requirement such as ``NAME`` or ``NAME == VERSION``.

    Only wheels count, because nothing else is installed. An index that has none, or does not answer, is an error.
    """
    only = ("--no-deps", "--universal", "--python-version", OLDEST_PYTHON, "--no-header", "--no-annotate")
    title = f"asking the package index for {requirement}"
    told = uv(title, "pip", "compile", *only, *WHEELS, "-", stdin=f"{requirement}\n".encode(), deadline=deadline)
    found = re.search(r"^[\w.-]+==(\S+)", told, re.MULTILINE)
    if found is None:
        raise PaddockError(f"the package index does not say which version of {requirement} it has")
    return found[1]
