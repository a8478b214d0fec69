"""`@frozen` behaves like `@dataclass(frozen=True)`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.frozen import frozen


def _made_by(decorator: Callable[[type[Any]], type[Any]]) -> type[Any]:
    """Return a class with one field of each kind that Paddock has."""

    @decorator
    class Value:
        many: ClassVar[int] = 7
        first: int
        second: str = "b"
        listed: list[int] = field(default_factory=list)
        hidden: int = field(default=1, repr=False)
        aside: int = field(default=2, compare=False)
        fixed: int = field(default=3, init=False)
        named: int = field(default=4, kw_only=True)

        @cached_property
        def twice(self) -> int:
            return 2 * self.first

    Value.__qualname__ = "Value"
    return Value


Ours = _made_by(frozen)
Theirs = _made_by(dataclass(frozen=True))

NAMES = ["first", "second", "listed", "hidden", "aside", "fixed", "named", "many", "absent"]
VALUES = st.one_of(st.integers(0, 2), st.text("ab", max_size=1), st.lists(st.integers(0, 1), max_size=1))
ARGUMENTS = st.tuples(st.lists(VALUES, max_size=7), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))


def _made(cls: type[Any], args: list[object], named: Mapping[str, object]) -> Any:
    try:
        return cls(*args, **named)
    except TypeError:
        return None


def _hashed(value: object) -> object:
    try:
        return hash(value)
    except TypeError:
        return "unhashable"


@given(ARGUMENTS, ARGUMENTS)
def test_the_same_arguments_make_the_same_value(
    one: tuple[list[object], dict[str, object]], other: tuple[list[object], dict[str, object]]
) -> None:
    ours, theirs = _made(Ours, *one), _made(Theirs, *one)
    assert (ours is None) == (theirs is None)
    if ours is None:
        return
    assert repr(ours) == repr(theirs)
    assert asdict(ours) == asdict(theirs)
    assert _hashed(ours) == _hashed(theirs)
    assert ours.twice == theirs.twice
    second = _made(Ours, *other)
    assert (ours == second) == (theirs == _made(Theirs, *other))
    for same in (copy.copy(ours), copy.deepcopy(ours), replace(ours)):
        assert same == ours
        assert _hashed(same) == _hashed(ours)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Ours(), r"Value\(\) misses the argument 'first'"),
        (lambda: Ours(1, 2, 3, 4, 5, 6), r"Value\(\) takes 5 positional arguments, not 6"),
        (lambda: Ours(1, first=2), r"Value\(\) got an unexpected or a second argument 'first'"),
        (lambda: Ours(1, absent=2), r"Value\(\) got an unexpected or a second argument 'absent'"),
        (lambda: Ours(1, fixed=2), r"Value\(\) got an unexpected or a second argument 'fixed'"),
    ],
)
def test_a_wrong_call_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call()


@pytest.mark.parametrize("name", ["first", "absent"])
def test_nothing_can_be_set_or_deleted(name: str) -> None:
    value = Ours(1)
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(value, name, 2)
    with pytest.raises(FrozenInstanceError, match=name):
        delattr(value, name)


def test_a_mutable_default_belongs_to_one_value() -> None:
    assert Ours(1).listed is not Ours(1).listed


def test_a_value_of_another_class_is_not_equal() -> None:
    @frozen
    class Narrower(Ours):  # type: ignore[misc, valid-type]
        pass

    assert Ours(1) != Narrower(1)
    assert Ours(1) != Theirs(1)


def test_fields_are_inherited_and_what_a_class_defines_stays() -> None:
    @frozen
    class Base:
        one: int

        def __post_init__(self) -> None:
            if self.one < 0:
                raise ValueError("below zero")

    @frozen
    class Derived(Base):
        two: int = 2

        def __repr__(self) -> str:
            return "its own"

    assert [each.name for each in fields(Derived)] == ["one", "two"]
    assert repr(Derived(1)) == "its own"
    assert Derived(1) == Derived(1, 2)
    with pytest.raises(ValueError, match="below zero"):
        Derived(-1)


def test_a_value_that_contains_itself_has_a_representation() -> None:
    @frozen
    class Loop:
        inside: list[object]

    loop = Loop([])
    loop.inside.append(loop)
    assert repr(loop).endswith("Loop(inside=[...])")


def test_values_match_patterns() -> None:
    match Ours(1, "x"):
        case Ours(first, second):
            assert (first, second) == (1, "x")
        case _:
            pytest.fail("the pattern does not match")
