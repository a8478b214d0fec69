"""Text for people: characters that act or cannot be seen become escapes, and numbers get their nouns."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Controls, formats (direction, tags, joiners), private use, lone surrogates, unassigned; line and paragraph separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, without the code points in the categories above.
_FILLERS: Final = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
_IGNORABLE: Final = frozenset((*_FILLERS, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
_KEPT: Final = "\t\n"
_JOINER: Final = "\u200d"
_SELECTORS: Final = "\ufe0e\ufe0f"  # text or emoji style of the character before
# Extended_Pictographic of Unicode's emoji-data.txt, without most of its reserved code points.
_PICTURE: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa"
    "\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714"
    "\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1"
    "\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff"
    "\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a"
    "\U0001f201\U0001f202\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f250\U0001f251\U0001f300-\U0001f3fa"
    "\U0001f400-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7f0\U0001f90c-\U0001f93a"
    "\U0001f93c-\U0001f945\U0001f947-\U0001faff"
)
_IN_EMOJI: Final = re.compile(f"[{_JOINER}{_SELECTORS}]")
_SKIN: Final = "\U0001f3fb-\U0001f3ff"  # the colour of the emoji before
# A joiner between two emoji; a selector after a picture, or in a keycap such as "1" in a box.
_OF_EMOJI: Final = re.compile(
    f"(?:(?<=[{_PICTURE}{_SKIN}])|(?<=[{_PICTURE}][{_SELECTORS}])){_JOINER}(?=[{_PICTURE}])"
    f"|(?<=[{_PICTURE}])[{_SELECTORS}]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)
_LONGEST: Final = 2000


class _Shown(dict[int, str]):
    """The visible form of each code point, for ``str.translate``. A bounded number is remembered."""

    def __missing__(self, point: int) -> str:
        letter = chr(point)
        seen = letter in _KEPT or (unicodedata.category(letter) not in _UNSEEN and point not in _IGNORABLE)
        shown = letter if seen else _escape(letter)
        if len(self) < _REMEMBERED:
            self[point] = shown
        return shown


_REMEMBERED: Final = 10_000
_SHOWN: Final = _Shown()


def visible(text: str) -> str:
    """Return the text with characters that act or cannot be seen as escapes (``\\x1b``, ``\\u202e``).

    Line feeds and tabs are kept, and joiners and selectors in emoji. Valid JSON stays valid: it contains no raw C0
    characters, and the escapes of the others are valid in JSON strings.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = _OF_EMOJI.finditer(text) if _IN_EMOJI.search(text) else ()
    parts, end = [], 0
    for found in kept:
        parts += [text[end : found.start()].translate(_SHOWN), found[0]]
        end = found.end()
    return "".join([*parts, text[end:].translate(_SHOWN)])


def one_line(text: str, most: int = _LONGEST) -> str:
    """Return the text as a single line of limited length, so that it cannot imitate Paddock's own lines."""
    shown = visible(text.rstrip("\n")).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[:most]}… ({len(shown) - most} more characters were cut)"


def lines(text: str) -> list[str]:
    """Return the non-empty lines of a text. Only a line feed ends a line, unlike ``str.splitlines``."""
    return [line for line in text.split("\n") if line]


def _escape(letter: str) -> str:
    number = ord(letter)
    if number < 0x20:
        return f"\\x{number:02x}"
    if number > 0xFFFF:  # as two surrogates, which is how JSON writes it
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"


def counted(number: int, noun: str) -> str:
    """Return `1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
