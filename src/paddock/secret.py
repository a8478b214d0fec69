"""A value that must not be shown, and the mask that hides it wherever text leaves the process."""

from __future__ import annotations

from typing import Final, NoReturn

MASK: Final = "•••"
_SHORTEST: Final = 4  # masking shorter values would mangle every text and hide nothing

# Every secret ever made in this process, so that no gate, log or error can forget to mask one.
_known: set[str] = set()


class Secret:
    """A secret value; only ``reveal()`` gives it away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value) >= _SHORTEST:
            _known.add(value)

    def reveal(self) -> str:
        """Return the value itself. The only way to it, and easy to search for."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


def mask(text: str) -> str:
    """Return the text with every known secret value replaced."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
