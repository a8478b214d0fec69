"""Compare the texts of two backups: what an agent has learned in between. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from paddock.frozen import frozen
from paddock.visible import one_line, visible

Texts = Mapping[str, str]  # by path

_MOST_LINES: Final = 5000  # a comparison takes time by the square of the lines, and the agent writes them


@frozen
class Change:
    """A text that differs between two backups. A line that only moved counts neither as added nor as removed."""

    text: str  # its path
    change: str  # new, changed or removed
    added: int  # lines
    removed: int


def changes(before: Texts, after: Texts) -> Iterator[Change]:
    """Yield the texts that differ, by path."""
    for path in sorted(before.keys() | after.keys()):
        old, new = _lines(before.get(path)), _lines(after.get(path))
        if old == new and (path in before) == (path in after):
            continue
        word = "new" if path not in before else "removed" if path not in after else "changed"
        came, went = Counter(new), Counter(old)
        yield Change(path, word, (came - went).total(), (went - came).total())


def difference(path: str, before: Texts, after: Texts, names: tuple[str, str]) -> str:
    """Return a unified diff of one text, safe to print; ``names`` are those of the two backups."""
    old, new = _lines(before.get(path)), _lines(after.get(path))
    shown = one_line(path, 500)
    heads = [f"{shown} ({name})" for name in names]
    if len(old) + len(new) > _MOST_LINES:
        lines = [f"--- {heads[0]}", f"+++ {heads[1]}", f"too long to compare: {len(old)} and {len(new)} lines"]
    else:
        lines = list(difflib.unified_diff(old, new, heads[0], heads[1], lineterm=""))
    return "\n".join(map(visible, lines))


def _lines(text: str | None) -> list[str]:
    """Return the lines of a text. Only a line feed ends a line, so that no other character can hide a part of one."""
    return text.removesuffix("\n").split("\n") if text else []
