"""Data that Paddock shares with its program on a machine: classes with fixed fields, written as JSON, read strictly.

`dataclasses` would take longer to load than the rest of a request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import NoneType, UnionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    Class = TypeVar("Class", bound=type)
else:

    def dataclass_transform(**_: object) -> Callable[[object], object]:
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
def frozen(cls: Class) -> Class:
    """Make a class whose instances have the annotated fields, and no others."""
    cls.__fields__ = {**getattr(cls, "__fields__", {}), **cls.__annotations__}  # type: ignore[attr-defined]
    for name, method in (("__init__", _init), ("__eq__", _eq), ("__hash__", _hash), ("__repr__", _repr)):
        if name not in vars(cls):
            setattr(cls, name, method)
    cls.__setattr__ = _refuse  # type: ignore[method-assign,assignment]
    return cls


def _init(self: Any, *args: object, **named: object) -> None:
    fields, cls = self.__fields__, type(self)
    given = {**dict(zip(fields, args, strict=False)), **named}
    lacks = any(name not in given and not hasattr(cls, name) for name in fields)
    if lacks or len(args) > len(fields) or len(given) < len(args) + len(named) or given.keys() - fields.keys():
        raise TypeError(f"{cls.__name__} has the fields {', '.join(fields)}")
    vars(self).update({name: given[name] if name in given else getattr(cls, name) for name in fields})


def _eq(self: Any, other: object) -> bool:
    return type(self) is type(other) and vars(self) == vars(other)


def _hash(self: Any) -> int:
    return hash(tuple(vars(self).values()))


def _repr(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _refuse(self: object, name: str, _: object) -> None:
    raise AttributeError(f"{name} cannot be set")


class Malformed(ValueError):
    """Data is not what its class says."""


def encoded(value: Any) -> Any:
    """Return a value as JSON can express it."""
    if hasattr(type(value), "__fields__"):
        return {name: encoded(each) for name, each in vars(value).items()}
    if isinstance(value, dict):
        return {str(name): encoded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encoded(each) for each in value]
    return value


def decoded(kind: Any, value: Any, where: str = "the message") -> Any:
    """Return a value of this type from JSON. Raise if anything in it has another type, is missing, or is too much."""
    origin: Any = getattr(kind, "__origin__", kind)
    args: Any = getattr(kind, "__args__", ())
    if isinstance(kind, UnionType):
        return None if value is None and NoneType in args else decoded(args[0], value, where)
    if kind is object or getattr(kind, "__name__", "") == "Any":
        return value
    if kind in (str, int, float, bool) and (type(value) is kind or (kind is float and type(value) is int)):
        return value
    fields = fields_of(origin)
    if fields is not None and isinstance(value, dict) and value.keys() <= fields.keys():
        return origin(**{name: decoded(fields[name], each, f"{where}.{name}") for name, each in value.items()})
    if isinstance(origin, type) and isinstance(value, list) and args and fields is None:
        made = [decoded(args[0], each, f"{where}[]") for each in value]
        if origin in (list, frozenset):
            return origin(made)
        if issubclass(tuple, origin) and (len(args) == 1 or args[1] is ... or len(args) == len(made)):
            return tuple(made)
    if isinstance(origin, type) and issubclass(dict, origin) and len(args) == 2 and isinstance(value, dict):
        return {name: decoded(args[1], each, f"{where}[{name!r}]") for name, each in value.items()}
    raise Malformed(f"{where} is not {getattr(kind, '__name__', kind)}: {value!r:.80}")


def fields_of(cls: Any) -> dict[str, Any] | None:
    """Return the fields of a class with their types; None if it has no fixed fields."""
    names = getattr(cls, "__fields__", getattr(cls, "__dataclass_fields__", None))
    if names is None:
        return None
    annotations: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        module = vars(sys.modules.get(each.__module__))
        for name, kind in vars(each).get("__annotations__", {}).items():
            annotations[name] = eval(kind, module) if isinstance(kind, str) else kind  # noqa: S307
    return {name: annotations[name] for name in names}
