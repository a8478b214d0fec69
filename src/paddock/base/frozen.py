"""`@frozen`: what `@dataclass(frozen=True)` makes, at a tenth of its cost.

Before Python 3.13 a frozen dataclass compiles six functions when its module is imported. Paddock has some 300 of these
classes, and a verb makes instances of few of them: compiling took a quarter of the import time of `up`. All classes
share the methods here, which look the fields up when they are called.
"""

from __future__ import annotations

import reprlib
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Class) -> Class:
    """Make a class a frozen dataclass: `fields`, `replace` and `asdict` know it, and its own methods stay."""
    own = {**vars(cls)}
    dataclass(init=False, repr=False, eq=False)(cls)
    every = fields(cls)
    looked_up = {"__every_field__": every, "__compared__": tuple(each.name for each in every if each.compare)}
    for name, value in {**_METHODS, **looked_up}.items():
        if name not in own:
            setattr(cls, name, value)
    return cls


def _init(self: Any, /, *args: object, **named: object) -> None:
    name = type(self).__qualname__
    positional = self.__match_args__
    if len(args) > len(positional):
        raise TypeError(f"{name}() takes {len(positional)} positional arguments, not {len(args)}")
    values = dict(zip(positional, args, strict=False))
    for each in self.__every_field__:
        if each.name in values:
            continue
        if each.init and each.name in named:
            values[each.name] = named.pop(each.name)
        elif each.default is not MISSING:
            values[each.name] = each.default
        elif each.default_factory is not MISSING:
            values[each.name] = each.default_factory()
        elif each.init:
            raise TypeError(f"{name}() misses the argument {each.name!r}")
    if named:
        raise TypeError(f"{name}() got an unexpected or a second argument {min(named)!r}")
    vars(self).update(values)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__every_field__ if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> tuple[object, ...]:
    return tuple(map(vars(self).__getitem__, self.__compared__))


def _setattr(_self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS: Final = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
