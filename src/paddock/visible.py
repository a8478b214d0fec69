"""Text of others, made safe to show: what a terminal would act upon becomes a visible escape."""

from __future__ import annotations

import re
from typing import Final

# Everything that moves the cursor, changes a terminal's state, breaks a line or reorders what is read: C0 without tab
# and line feed, DEL and C1, marks and overrides of direction, other line breaks, invisible marks, lone surrogates.
_ACTS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_LONGEST: Final = 2000


def visible(text: str) -> str:
    """Return the text with control characters as escapes (``\\x1b``, ``\\u202e``); lines and tabs stay.

    JSON stays JSON: it has no raw C0 in it, and the escapes of all others are JSON's own.
    """
    return _ACTS.sub(_escape, text)


def one_line(text: str, most: int = _LONGEST) -> str:
    """Return the text as a single line, so that it cannot pretend to be a line of ours; a long one is cut."""
    shown = visible(text.rstrip("\n")).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[:most]}… ({len(shown) - most} more characters were cut)"


def lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty; only a line feed ends one, whatever else is in it."""
    return [line for line in text.split("\n") if line]


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}"
