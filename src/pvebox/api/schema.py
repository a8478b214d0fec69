"""Check values against Proxmox's parameter schemas, with Proxmox's exact error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pvebox.api.errors import OperationError, ParameterError

# Raises a FormatError for an invalid value. The result is ignored.
FormatCheck = Callable[[str], object]
Properties = Mapping[str, "Prop"]

_NUMBER = re.compile(r"[+-]?(\d+\.\d+|\d+\.|\.\d+|\d+)([eE][+-]?\d+)?\Z")
_INTEGER = re.compile(r"[+-]?\d+\Z")


class FormatError(Exception):
    """A value does not match its format. The text is Proxmox's message."""


@dataclass(frozen=True)
class Prop:
    """One property of a schema, with its constraints."""

    type: str = "string"
    optional: bool = False
    format: FormatCheck | Properties | None = None
    pattern: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    enum: tuple[str, ...] | None = None
    requires: str | None = None
    default_key: bool = False


FLAG: Final = Prop(type="boolean", optional=True)


@dataclass(frozen=True)
class ListFormat:
    """A format for lists: every entry must pass a check. An empty list is valid."""

    check: FormatCheck
    split: Callable[[str], list[str]]

    def __call__(self, text: str) -> None:
        """Raise if an entry of the list does not pass the check."""
        for entry in self.split(text):
            self.check(entry)


def joined_lists(values: Mapping[str, Any], properties: Properties) -> dict[str, Any]:
    """Return parameters with the arrays joined by commas where a list as text is expected."""
    joined = dict(values)
    for key, value in values.items():
        prop = properties.get(key)
        if prop is not None and isinstance(prop.format, ListFormat) and isinstance(value, list) and value:
            joined[key] = ",".join(map(str, value))
    return joined


def verify(values: Mapping[str, Any], properties: Properties) -> None:
    """Raise a ParameterError that lists all values that do not match the schema."""
    errors = object_errors(values, properties, "")
    if errors:
        raise ParameterError(errors)


def object_errors(values: Mapping[str, Any], properties: Properties, path: str) -> dict[str, str]:
    """Return the errors of an object by the dotted path of the property."""
    errors: dict[str, str] = {}
    for key, prop in properties.items():
        if prop.optional and key not in values:
            continue
        here = f"{path}.{key}" if path else key
        problem = _problem(values.get(key), prop, here)
        if problem is not None:
            _add(errors, here, problem)
    for key in values:
        here = f"{path}.{key}" if path else key
        known = properties.get(key)
        if known is None:
            _add(
                errors,
                here,
                "property is not defined in schema and the schema does not allow additional properties",
            )
        elif known.requires and values.get(known.requires) is None:
            needed = f"{path}.{known.requires}" if path else known.requires
            _add(errors, needed, f"missing property required by '{here}'")
    return errors


def _add(errors: dict[str, str], path: str, message: str) -> None:
    # Proxmox separates several errors of one key by a literal backslash and n.
    errors[path] = f"{errors[path]}\\n{message}" if path in errors else message


def _problem(value: Any, prop: Prop, path: str) -> str | None:
    if value is None:
        return None if prop.optional else "property is missing and it is not optional"
    wrong_type = _type_problem(value, prop.type)
    if wrong_type:
        return wrong_type
    text = str(value)
    if prop.format is not None:
        problem = _format_problem(text, prop.format, path)
        if problem:
            return problem
    if prop.pattern is not None and not re.fullmatch(prop.pattern, text, re.ASCII):
        return "value does not match the regex pattern"
    return _bounds_problem(text, prop)


def _type_problem(value: Any, wanted: str) -> str | None:
    match value:
        case Mapping():
            return f"type check ('{wanted}') failed - got HASH"
        case list() if wanted != "array":
            return f"type check ('{wanted}') failed - got ARRAY"
    text = str(value)
    fits = {
        "boolean": text in ("0", "1"),
        "integer": bool(_INTEGER.match(text)),
        "number": bool(_NUMBER.match(text)),
    }.get(wanted, True)
    return None if fits else f"type check ('{wanted}') failed - got '{text}'"


def _format_problem(text: str, format_: FormatCheck | Properties, path: str) -> str | None:
    try:
        if callable(format_):
            format_(text)
        else:
            parse_property_string(text, format_, path)
    except FormatError as error:
        return f"invalid format - {error}"
    except OperationError as error:
        listing = "".join(f"{key}: {said}\n" for key, said in sorted(error.errors.items()))
        return f"invalid format - {error.message}{listing}"
    return None


def _bounds_problem(text: str, prop: Prop) -> str | None:
    if prop.max_length is not None and len(text) > prop.max_length:
        return f"value may only be {prop.max_length} characters long"
    if prop.min_length is not None and len(text) < prop.min_length:
        return f"value must be at least {prop.min_length} characters long"
    if _NUMBER.match(text):
        number = float(text)
        if prop.maximum is not None and number > prop.maximum:
            return f"value must have a maximum value of {_plain(prop.maximum)}"
        if prop.minimum is not None and number < prop.minimum:
            return f"value must have a minimum value of {_plain(prop.minimum)}"
    if prop.enum is not None and text not in prop.enum:
        return f"value '{text}' does not have a value in the enumeration '{', '.join(prop.enum)}'"
    return None


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def parse_boolean(text: str) -> str | None:
    """Return "1" or "0" for a word that Proxmox accepts as a boolean, else None."""
    lowered = text.lower()
    if lowered in ("1", "on", "yes", "true"):
        return "1"
    if lowered in ("0", "off", "no", "false"):
        return "0"
    return None


def parse_property_string(text: str, properties: Properties, path: str = "") -> dict[str, str]:
    """Parse a `key=value,key=value` text and check it against a schema."""
    parts: dict[str, str] = {}
    default_key = next((key for key, prop in properties.items() if prop.default_key), None)
    for part in text.split(","):
        if not part.strip():
            continue
        key, separator, value = part.partition("=")
        if separator and key and value:
            if key in parts:
                raise FormatError(f"duplicate key in comma-separated list property: {key}\n")
            prop = properties.get(key)
            if prop is not None and prop.type == "boolean":
                value = parse_boolean(value) or value
            parts[key] = value
        elif not separator:
            if default_key is None:
                raise FormatError("value without key, but schema does not define a default key\n")
            if default_key in parts:
                raise FormatError(f"duplicate key in comma-separated list property: {default_key}\n")
            parts[default_key] = part
        else:
            raise FormatError("missing key in comma-separated list property\n")
    errors = object_errors(parts, properties, path)
    if errors:
        raise OperationError("format error", errors)
    return parts


def print_property_string(parts: Mapping[str, str], properties: Properties) -> str:
    """Print a property string in Proxmox's order: default key, required keys, optional keys, each group sorted."""
    default_key = next((key for key, prop in properties.items() if prop.default_key), None)
    ordered = [default_key] if default_key in parts else []
    ordered += sorted(key for key in parts if not properties[key].optional and key != default_key)
    ordered += sorted(key for key in parts if properties[key].optional and key != default_key)
    return ",".join(parts[key] if key == default_key else f"{key}={parts[key]}" for key in ordered if key is not None)
