"""Text in columns, and how many columns of a terminal a text takes."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from paddock.base.text import one_line


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows with each column as wide as its widest cell; the first row is the header."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


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
