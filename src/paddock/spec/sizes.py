"""Sizes as people write them: ``10G``, ``512M``, ``10GiB``."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)


class Size(int):
    """A number of bytes that is written and shown with a unit."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the size a text like ``10G`` means; units are powers of 1024, as in Proxmox."""
        if isinstance(text, cls):
            return text
        match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ValueError("a size needs a number and a unit, like 512M or 10G")
        size = cls(float(match[1]) * _UNITS[match[2].upper()])
        if size <= 0:
            raise ValueError("a size must be larger than 0")
        return size

    @property
    def mib(self) -> int:
        return int(self) >> 20

    @property
    def gib(self) -> str:
        """The size in GiB as Proxmox wants it in ``storage:SIZE``: ``10`` or ``0.5``."""
        return f"{int(self) / (1 << 30):g}"

    def __str__(self) -> str:
        for unit, factor in reversed(_UNITS.items()):
            if self >= factor and self % factor == 0:
                return f"{self // factor}{unit}"
        return f"{int(self)}B"


def _or_zero(value: object) -> Size:
    return Size(0) if value == 0 and not isinstance(value, bool) else Size.parse(value)


_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^\s*\d+(\.\d+)?\s*[KMGTkmgt]([iI]?[bB])?\s*$",
    "examples": ["512M", "10G"],
}

SizeField = Annotated[Size, PlainValidator(Size.parse), PlainSerializer(str, when_used="json"), WithJsonSchema(_SCHEMA)]
SizeOrZero = Annotated[
    Size,
    PlainValidator(_or_zero),
    PlainSerializer(str, when_used="json"),
    WithJsonSchema({"anyOf": [_SCHEMA, {"const": 0}]}),
]
