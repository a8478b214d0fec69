"""Sizes and durations as people write them: ``10G``, ``512M``, ``500ms``, ``2m``."""

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


_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)", re.ASCII)
_LONGEST: Final = 366 * 86400.0


class Duration(float):
    """A number of seconds, written and printed with a unit."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the duration of a text like ``5s``."""
        if isinstance(text, cls):
            return text
        match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ValueError("a duration needs a number and a unit, like 500ms, 5s, 2m or 1h")
        duration = cls(float(match[1]) * _SECONDS[match[2]])
        if not 0 < duration <= _LONGEST:
            raise ValueError("a duration must be longer than 0 and at most 366d")
        return duration

    @property
    def seconds(self) -> float:
        return float(self)

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            if self >= _SECONDS[unit] and self % _SECONDS[unit] == 0:
                return f"{self / _SECONDS[unit]:g}{unit}"
        return f"{round(self * 1000, 3):g}ms"

    __repr__ = __str__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$", "examples": ["5s", "2m"]}


def in_words(seconds: float) -> str:
    """Return a number of seconds with its two largest units, such as ``2d 3h`` or ``4m 10s``."""
    whole = int(max(seconds, 0))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {whole % 60}s"
