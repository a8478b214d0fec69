"""The base model for parts of the file, and types of values that several parts share."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Final, Union, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Model(BaseModel):
    """A part of the file: immutable, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)


# Pydantic inspects the signature of a factory. For `list` and `dict` themselves it would parse a text of Python's.
def no_items() -> list[Any]:
    """Return an empty list, as the default of a key."""
    return []


def no_keys() -> dict[str, Any]:
    """Return an empty mapping, as the default of a key."""
    return {}


# Descriptions of patterns, for messages: users do not have to read regular expressions.
PATTERNS: Final[dict[str, str]] = {}


def worded(pattern: str, words: str) -> str:
    """Return the pattern, and remember its description for messages."""
    PATTERNS[pattern] = words
    return pattern


def shorthand(model: type[Model], key: str, *forms: Any, example: str) -> BeforeValidator:
    """Accept a plain value of these types in place of the part, as short for ``{key: value}``."""
    kinds = tuple(get_origin(form) or form for form in forms)

    def expand(value: Any) -> Any:
        if isinstance(value, dict | BaseModel):
            return value
        # In Python, True is an int.
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return {key: value}
        raise ValueError(f"write {example}")

    return BeforeValidator(expand, json_schema_input_type=Union[(*forms, model)])


def one_form(path: str) -> str:
    """Return an absolute path in normal form, so that paths can be compared."""
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts:
        raise ValueError("must be an absolute path without ..")
    if not path.isprintable():
        raise ValueError("must be a path without line breaks and control characters")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def _ip_address(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        raise ValueError("must be an IP address") from None
    return value


def is_variable(name: str) -> bool:
    """Whether the name is valid for an environment variable."""
    return name.isidentifier() and name.isascii()


def _variable(name: str) -> str:
    if not is_variable(name):
        raise ValueError("is not a valid name of an environment variable: letters, digits and _")
    return name


def _below(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or not path.strip() or any(part in {"", ".", ".."} for part in parts):
        raise ValueError("must be a relative path without . and ..")
    return path


_NAME: Final = r"^[a-z][a-z0-9-]{0,30}$"


def is_name(text: str) -> bool:
    """Whether an agent can have this name."""
    return re.fullmatch(_NAME, text) is not None


Name = Annotated[
    str,
    Field(
        pattern=worded(
            _NAME,
            "a name: at most 31 lower case letters, digits and -, beginning with a letter",
        )
    ),
]
Hostname = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$",
            "a host name: letters, digits, - and dots",
        )
    ),
]
Address = Annotated[
    str,
    Field(pattern=worded(r"^[A-Za-z0-9:]([A-Za-z0-9.:-]*[A-Za-z0-9:])?$", "a host name or an IP address")),
]
Tag = Annotated[
    str,
    Field(pattern=worded(r"^[a-z0-9_][a-z0-9_+.-]*$", "a Proxmox tag: lower case letters, digits, _ + . -")),
]
Package = Annotated[
    str,
    Field(pattern=worded(r"^[a-z0-9][a-z0-9+.-]+$", "the name of a Debian package: lower case letters, digits, + . -")),
]
PythonPackage = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9.+!_-]*)?$", "a Python package: NAME or NAME==VERSION"
        )
    ),
]
Version = Annotated[
    str,
    Field(pattern=worded(r"^\d+(\.\d+)*$", "a version: numbers with dots, like 0.19.0 (quote it if it has one dot)")),
]
Url = Annotated[
    str, Field(pattern=worded(r"^https?://[^/\s@]+(/\S*)?$", "a URL without a password: http://host:port/path"))
]
VmId = Annotated[int, Field(ge=100, le=999_999_999)]
Port = Annotated[int, Field(ge=1, le=65535)]
VolumeId = Annotated[str, Field(pattern=worded(r"^[A-Za-z][A-Za-z0-9_.-]*:\S+$", "a Proxmox volume: storage:name"))]
StorageName = Annotated[str, Field(pattern=worded(r"^[A-Za-z][A-Za-z0-9_.-]*$", "the name of a Proxmox storage"))]
AbsolutePath = Annotated[str, AfterValidator(one_form)]
RelativePath = Annotated[str, AfterValidator(_below)]
LocalPath = Annotated[Path, Field(strict=False, description="a path on this machine")]
IpAddress = Annotated[str, AfterValidator(_ip_address)]
VariableName = Annotated[str, AfterValidator(_variable)]
Argv = Annotated[list[str], Field(min_length=1)]
