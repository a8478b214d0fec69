"""The texts of an agent beside its backups, and the changes between two of them."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Final

from paddock.base import bounded
from paddock.base.frozen import frozen
from paddock.base.text import one_line, visible
from paddock.onboard.stream.layout import has_at_most

if TYPE_CHECKING:
    from paddock.backups.contract import Proof


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
    """Return a unified diff of one text, safe to print; ``names`` are the names of the two backups."""
    old, new = _lines(before.get(path)), _lines(after.get(path))
    shown = one_line(path, 500)
    heads = [f"{shown} ({name})" for name in names]
    if len(old) + len(new) > _MOST_LINES:
        lines = [f"--- {heads[0]}", f"+++ {heads[1]}", f"too long to compare: {len(old)} and {len(new)} lines"]
    else:
        lines = list(difflib.unified_diff(old, new, heads[0], heads[1], lineterm=""))
    return "\n".join(map(visible, lines))


def _lines(text: str | None) -> list[str]:
    """Return the lines of a text. Only a line feed ends a line, so that no other character can hide a part of it."""
    return text.removesuffix("\n").split("\n") if text else []


_LONGEST: Final = 256 << 10  # bytes of one text
_MOST_TEXTS: Final = 10_000
_MOST_BYTES: Final = 64 << 20  # of all texts of a backup, and of their JSON
_LONGEST_JSON: Final = _MOST_BYTES + (1 << 20)
_MOST_VALUES: Final = 5 * _MOST_TEXTS  # in their JSON
# The time of all files in a code tree. An agent that copies a text from there into its home copies the time too, and
# has not learned the text. A change of the text changes the time.
_OF_THE_CODE: Final = 0


class Taken:
    """Takes the texts out of a stream, until there are too many."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._taken: dict[str, bytearray] = {}
        self._left = _MOST_BYTES

    def take(self, path: str, header: tarfile.TarInfo) -> Callable[[bytes], object] | None:
        """Return what gets the content of a file, or None if the file is no text of the agent."""
        if header.size > _LONGEST or header.mtime == _OF_THE_CODE or not self._pattern.fullmatch(path):
            return None
        if header.size + len(path) > self._left or len(self._taken) == _MOST_TEXTS:
            return None
        self._left -= header.size + len(path)
        self._taken[path] = bytearray()
        return self._taken[path].extend

    def texts(self) -> dict[str, str]:
        """Return the texts by path, as many of them as fit into the JSON of a backup."""
        found, left = {}, _MOST_BYTES
        for path, data in sorted(self._taken.items()):
            text = bytes(data).decode(errors="replace")
            left -= len(json.dumps({path: text}))
            if left > 0:
                found[path] = text
        return found


def hash_of(texts: Mapping[str, str]) -> str:
    """Return a hash of texts."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def from_json(stream: IO[bytes], key: str | None = None, *, proof: Proof | None = None) -> Mapping[str, str] | None:
    """Read texts that were written as JSON, below ``key`` if it is given.

    None if they are damaged, too large, or others than those that were signed.
    """
    found = within(stream)
    if key is not None:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        return None
    if len(found) > _MOST_TEXTS or any(len(text) > _LONGEST for text in found.values()):
        return None
    return found if proof is None or proof.texts == hash_of(found) else None


def within(stream: IO[bytes]) -> Any:
    """Return JSON with texts in it; None if it is damaged or too large."""
    try:
        data = bounded.at_most(stream, _LONGEST_JSON, "JSON")
        return bounded.parsed(data, len(data)) if has_at_most(data, _MOST_VALUES) else None
    except (ValueError, bounded.TooLarge):
        return None
