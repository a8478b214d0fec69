"""How many columns of a terminal a text takes."""

from __future__ import annotations

import unicodedata


def cells(text: str) -> int:
    """Return the number of columns that the text takes."""
    return sum(map(_cells, text))


def cut(text: str, most: int) -> str:
    """Return the text, cut at its end to this number of columns."""
    if cells(text) <= most:
        return text
    kept, taken = [], 1  # the column of the ellipsis
    for letter in text:
        taken += _cells(letter)
        if taken > most:
            break
        kept.append(letter)
    return "".join(kept) + "…" if most > 0 else ""


def _cells(letter: str) -> int:
    if letter.isascii():
        return 1
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # they combine with the letter before
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
