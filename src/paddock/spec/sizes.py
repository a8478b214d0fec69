"""Sizes as people write them: ``10G``, ``512M``, ``10GiB``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT])(?:i?B)?", re.IGNORECASE | re.ASCII)
_LARGEST: Final = 1 << 60


class Size(int):
    """A number of bytes, written and printed with a unit."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the size of a text like ``10G``; units are powers of 1024, as in Proxmox."""
        if isinstance(text, cls):
            return text
        match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ValueError("a size needs a number and a unit, like 512M or 10G")
        size = cls(float(match[1]) * _UNITS[match[2].upper()])
        if size <= 0:
            raise ValueError("a size must be larger than 0")
        if size > _LARGEST:
            raise ValueError("a size must be at most 1048576T")
        return size

    @property
    def mib(self) -> int:
        return int(self) >> 20

    @property
    def gib(self) -> str:
        """The size in GiB, as in Proxmox' ``storage:SIZE``: ``10`` or ``0.5``."""
        return f"{int(self) / (1 << 30):g}"

    def __str__(self) -> str:
        for unit, factor in reversed(_UNITS.items()):
            if self >= factor and self % factor == 0:
                return f"{self // factor}{unit}"
        return f"{int(self)}B"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[KMGTkmgt]([iI]?[bB])?$", "examples": ["512M", "10G"]}


def _zero(value: object) -> object:
    return Size(0) if value == 0 and not isinstance(value, bool) else value


SizeOrZero = Annotated[Size, BeforeValidator(_zero, json_schema_input_type=Size | int)]
