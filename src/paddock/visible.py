"""Make untrusted text safe to print: control characters become visible escapes."""

from __future__ import annotations

import re
from typing import Final

# Characters that move the cursor, change the terminal's state, break a line or reorder text: C0 without tab and line
# feed, DEL, C1, direction marks and overrides, other line breaks, invisible characters, lone surrogates.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_LONGEST: Final = 2000


def visible(text: str) -> str:
    """Return the text with control characters as escapes (``\\x1b``, ``\\u202e``); line feeds and tabs are kept.

    Valid JSON stays valid: it contains no raw C0 characters, and the escapes of the others are valid in JSON strings.
    """
    return _CONTROL.sub(_escape, text)


def one_line(text: str, most: int = _LONGEST) -> str:
    """Return the text as a single line of limited length, so that it cannot imitate Paddock's own lines."""
    shown = visible(text.rstrip("\n")).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[:most]}… ({len(shown) - most} more characters were cut)"


def lines(text: str) -> list[str]:
    """Return the non-empty lines of a text. Only a line feed ends a line, unlike ``str.splitlines``."""
    return [line for line in text.split("\n") if line]


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}"
