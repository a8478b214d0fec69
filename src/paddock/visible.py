"""Make untrusted text safe to print: characters that act or cannot be seen become escapes."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Controls, formats (direction, tags, joiners), private use, lone surrogates, unassigned; line and paragraph separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, without what the categories above already cover.
_FILLERS: Final = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
_IGNORABLE: Final = frozenset((*_FILLERS, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
_KEPT: Final = "\t\n"
_JOINER: Final = "\u200d"
_SELECTORS: Final = "\ufe0e\ufe0f"  # text or emoji style of the character before
_OF_EMOJI: Final = re.compile(f"[{_JOINER}{_SELECTORS}]")
_SYMBOLS: Final = frozenset({"So", "Sk"})  # emoji, and the colours of their skin
_LONGEST: Final = 2000


class _Shown(dict[int, str]):
    """What each code point is shown as, for ``str.translate``. A bounded number is remembered."""

    def __missing__(self, point: int) -> str:
        letter = chr(point)
        seen = letter in _KEPT or (unicodedata.category(letter) not in _UNSEEN and point not in _IGNORABLE)
        shown = letter if seen else _escape(letter)
        if len(self) < _REMEMBERED:
            self[point] = shown
        return shown


_REMEMBERED: Final = 10_000
_SHOWN: Final = _Shown({ord(letter): letter for letter in (_JOINER, *_SELECTORS)})


def visible(text: str) -> str:
    """Return the text with characters that act or cannot be seen as escapes (``\\x1b``, ``\\u202e``).

    Line feeds and tabs are kept, and joiners and selectors in emoji. Valid JSON stays valid: it contains no raw C0
    characters, and the escapes of the others are valid in JSON strings.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OF_EMOJI.sub(_in_emoji, text).translate(_SHOWN)


def one_line(text: str, most: int = _LONGEST) -> str:
    """Return the text as a single line of limited length, so that it cannot imitate Paddock's own lines."""
    shown = visible(text.rstrip("\n")).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[:most]}… ({len(shown) - most} more characters were cut)"


def lines(text: str) -> list[str]:
    """Return the non-empty lines of a text. Only a line feed ends a line, unlike ``str.splitlines``."""
    return [line for line in text.split("\n") if line]


def _in_emoji(found: re.Match[str]) -> str:
    """Return a joiner that stands between two emoji, or a selector after one; another one as an escape."""
    text, start = found.string, found.start()
    before, after = text[max(start - 1, 0) : start], text[start + 1 : start + 2]
    if found[0] == _JOINER:
        if before and before in _SELECTORS:
            before = text[max(start - 2, 0) : start - 1]
        kept = _is_symbol(before) and _is_symbol(after)
    else:
        kept = _is_symbol(before)
    return found[0] if kept else _escape(found[0])


def _is_symbol(letter: str) -> bool:
    return bool(letter) and unicodedata.category(letter) in _SYMBOLS


def _escape(letter: str) -> str:
    number = ord(letter)
    if number < 0x20:
        return f"\\x{number:02x}"
    if number > 0xFFFF:  # as two surrogates, which is how JSON writes it
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"
