"""Format rows as plain text columns."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.visible import one_line


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows with each column as wide as its widest cell; the first row is the header."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
