"""The secret type, and the mask that replaces secret values in all output."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote, quote_plus

from paddock.base.text import visible

MASK: Final = "•••"
_SHORTEST: Final = 6  # masking shorter values (true, 8642) would garble ordinary output and hide nothing

# Every form of every secret created in this process. The mask replaces all of them in all output.
_known: set[str] = set()

if TYPE_CHECKING:
    # To the type checker a secret is not a str, so that forgetting reveal() is a type error.
    class _Text:
        def __new__(cls, value: str) -> Any: ...
else:
    # At run time a secret is the str "•••", so that printing, joining or serialising it writes the mask.
    _Text = str


class Secret(_Text):
    """A secret value. Only ``reveal()`` returns it; all other uses show the mask."""

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: str) -> Secret:
        secret: Secret = super().__new__(cls, MASK)
        secret._value = value
        _known.update(_forms(value))
        return secret

    def reveal(self) -> str:
        """Return the value itself. This is the only way to read it, and easy to grep for."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[[str], str], tuple[str]]:
        return str, (MASK,)

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __copy__(self) -> Secret:
        return self


def mask(text: str) -> str:
    """Return the text with every known secret value replaced by the mask, in plain or encoded form."""
    return _pattern(frozenset(_known)).sub(MASK, text) if _known else text


def unfinished(text: str) -> int:
    """Return how many characters at the end of the text may be the beginning of a secret value.

    Text that arrives in pieces is printed without them until more of it is known.
    """
    longest = 0
    for form in _known:
        start = min(len(form) - 1, len(text))
        longest = max(longest, next((n for n in range(start, longest, -1) if text.endswith(form[:n])), 0))
    return longest


@lru_cache(maxsize=4)
def _pattern(known: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(known, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first)))


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which the value may appear inside other text: plain, quoted and encoded."""
    for part in {value, *map(str.strip, value.split("\n"))}:
        if len(part) < _SHORTEST:
            continue
        yield from {
            part,
            json.dumps(part)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            repr(part)[1:-1],
            shlex.quote(part).strip("'"),
        }
        yield from _url_forms(part)
        yield from (form for form in _base64_forms(part.encode()) if len(form) >= _SHORTEST)


def _url_forms(value: str) -> Iterator[str]:
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the base64 characters that are the same whatever surrounds the value, for each of three alignments."""
    for before in range(3):
        letters = base64.b64encode(b"\0" * before + value).rstrip(b"=").decode()
        first = -(-before * 4 // 3)
        last = (before + len(value)) * 4 // 3
        yield letters[first:last]
        yield letters[first:last].replace("+", "-").replace("/", "_")


class MaskedStream:
    """A text stream that masks secrets and makes control characters visible in all text written to it."""

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    def write(self, text: str) -> int:
        self.bare.write(visible(mask(text)))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def unmasked(stream: TextIO) -> TextIO:
    """Return the stream without the mask: for the command that prints a secret, and for Paddock's own colours."""
    return stream.bare if isinstance(stream, MaskedStream) else stream
