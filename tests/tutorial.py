"""The transcripts in docs/tutorial.md: tests record them, and compare the page with what they see."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs/tutorial.md"
_MASKS = (
    (r"(?:[0-9A-F]{2}:){16}\n  (?:[0-9A-F]{2}:){15}[0-9A-F]{2}", "7A:5C:…"),
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    (r"SHA256:[A-Za-z0-9+/]{43}", "SHA256:…"),
    (r"\b[0-9]+(\.[0-9]+)? s\b", "… s"),
    (r"template [0-9a-f]{12}", "template 3f2a91c07d5e"),
    (r"127\.0\.0\.1:[0-9]{4,5}", "127.0.0.1:8006"),
    (r"[ \t]+\n", "\n"),
)


def same_in_the_tutorial(name: str, text: str) -> bool:
    """Fail with a diff unless the page has this transcript. PADDOCK_GOLDEN=write rewrites the page instead."""
    __tracebackhide__ = True
    for pattern, replacement in _MASKS:
        text = re.sub(pattern, replacement, text)
    block = re.compile(rf"(<!-- transcript: {name} -->\n```console\n)(.*?)(\n```\n)", re.DOTALL)
    page = PAGE.read_text()
    found = block.search(page)
    assert found, f"{PAGE.name} has no transcript {name}"
    shown = text.strip("\n")
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        PAGE.write_text(page[: found.start(2)] + shown + page[found.end(2) :])
        return True
    if found[2] != shown:
        both = found[2].splitlines(), shown.splitlines()
        pytest.fail("\n".join(difflib.unified_diff(*both, "tutorial.md", "seen", lineterm="")), pytrace=False)
    return True
