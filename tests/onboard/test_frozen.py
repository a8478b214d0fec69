"""Data that Paddock shares with its program on a machine: what is not exactly as its class says is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base import frozen as base
from paddock.onboard.agent import Agent
from paddock.onboard.apply import Apply
from paddock.onboard.configure import File, Sent
from paddock.onboard.engine.containers import Engine
from paddock.onboard.observe import READERS, Observe
from paddock.onboard.program.frozen import Malformed, decoded, encoded, fields_of, frozen
from paddock.plan.agent import AgentSeen


@frozen
class Leaf:
    name: str
    size: int = 7


@frozen
class Branch:
    leaf: Leaf
    leaves: list[Leaf] = []  # noqa: RUF012  no instance changes it
    by_name: dict[str, Leaf] = {}  # noqa: RUF012
    spare: Leaf | None = None
    pair: tuple[int, int] = (0, 0)
    many: tuple[str, ...] = ()
    few: frozenset[str] = frozenset()
    share: float = 0.5
    is_old: bool = False
    more: Any = None


@base.frozen
class Seen:
    """A class of Paddock's own, into which an answer is read."""

    names: Sequence[str]
    leaves: Mapping[str, Sequence[int]]
    room: tuple[int, int] | None = None


LEAF = {"name": "a"}


def test_a_value_of_each_type_is_read() -> None:
    about = {
        **{"leaf": {"name": "a", "size": 1}, "leaves": [LEAF], "by_name": {"x": LEAF}, "spare": LEAF, "pair": [1, 2]},
        **{"many": ["x", "y"], "few": ["x", "x"], "share": 1, "is_old": True, "more": {"any": [None]}},
    }
    leaf = Leaf("a")
    made = Branch(Leaf("a", 1), [leaf], {"x": leaf}, leaf, (1, 2), ("x", "y"), frozenset("x"), 1, True, {"any": [None]})
    assert decoded(Branch, about) == made
    assert decoded(Branch, {"leaf": LEAF}) == Branch(leaf)
    assert decoded(Seen, {"names": ["x"], "leaves": {"x": [1]}, "room": None}) == Seen(("x",), {"x": (1,)})
    assert decoded(list[Leaf], [LEAF]) == [leaf]
    assert decoded(str | None, None) is None


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"leaf": None}, "the message.leaf"),
        ({"leaf": []}, "the message.leaf"),
        ({"leaf": {"name": None}}, "the message.leaf.name"),
        ({"leaf": {"name": 1}}, "the message.leaf.name"),
        ({"leaf": {"name": ["a"]}}, "the message.leaf.name"),
        ({"leaf": {"name": "a", "size": "1"}}, "the message.leaf.size"),
        ({"leaf": {"name": "a", "size": 1.0}}, "the message.leaf.size"),
        ({"leaf": {"name": "a", "size": True}}, "the message.leaf.size"),
        ({"leaf": {"name": "a", "more": 1}}, "the message.leaf"),
        ({"leaves": LEAF}, "the message.leaves"),
        ({"leaves": "a"}, "the message.leaves"),
        ({"leaves": [LEAF, {"name": 1}]}, "the message.leaves[].name"),
        ({"by_name": ["x"]}, "the message.by_name"),
        ({"by_name": []}, "the message.by_name"),
        ({"by_name": {"x": {"name": 1}}}, "the message.by_name['x'].name"),
        ({"spare": {"name": 1}}, "the message.spare.name"),
        ({"spare": False}, "the message.spare"),
        ({"pair": [1]}, "the message.pair"),
        ({"pair": [1, 2, 3]}, "the message.pair"),
        ({"pair": [1, "2"]}, "the message.pair[]"),
        ({"many": "text"}, "the message.many"),
        ({"many": ["x", None]}, "the message.many[]"),
        ({"few": {"x": 1}}, "the message.few"),
        ({"few": [["x"]]}, "the message.few[]"),
        ({"share": "0.5"}, "the message.share"),
        ({"is_old": 0}, "the message.is_old"),
        ({"other": 1}, "the message"),
        ({"perform": 1}, "the message"),
        ({"__class__": 1}, "the message"),
    ],
)
def test_a_value_of_another_type_and_a_field_too_many_are_errors(part: dict[str, Any], where: str) -> None:
    with pytest.raises(Malformed) as caught:
        decoded(Branch, {"leaf": LEAF, **part})
    assert str(caught.value).startswith(f"{where} is not ")


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Leaf, {}), (Leaf, {"size": 1}), (Branch, {}), (Branch, {"leaf": {}}), (Seen, {"names": []}), (Seen, {})],
)
def test_a_missing_field_is_an_error(kind: type, value: dict[str, Any]) -> None:
    with pytest.raises((Malformed, TypeError)):
        decoded(kind, value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one)))
def test_what_is_no_object_is_no_instance_of_a_class(value: object) -> None:
    for kind in (Branch, Seen, AgentSeen, Apply):
        with pytest.raises(Malformed):
            decoded(kind, value)


def test_an_instance_has_its_fields_and_cannot_change() -> None:
    leaf = Leaf("a")
    assert (leaf, hash(leaf), repr(leaf)) == (Leaf(name="a", size=7), hash(Leaf("a", 7)), "Leaf(name='a', size=7)")
    assert leaf not in (Leaf("b"), Leaf("a", 8), ("a", 7))
    with pytest.raises(AttributeError, match="size cannot be set"):
        leaf.size = 8  # type: ignore[misc]
    wrong: Any = Leaf
    for arguments, named in (((), {}), (("a", 1, 2), {}), (("a",), {"name": "a"}), (("a",), {"other": 1})):
        with pytest.raises(TypeError, match="Leaf has the fields name, size"):
            wrong(*arguments, **named)


AGENT = Agent("system", "home_bee", ("bee",), "/etc/paddock/home_bee", "/opt/paddock/.store", "/l", "/s")


@given(st.dictionaries(st.text(), st.builds(File, st.text(), st.integers())), st.text(), st.booleans())
def test_a_request_arrives_as_it_was_made(files: dict[str, File], secrets: str, whole: bool) -> None:
    for request in (
        Apply(AGENT, Sent("b1", files, secrets, {"0": secrets}, whole=whole)),
        Observe(AGENT, ("git",), "hermes_agent", Engine("docker", "c", "i", ("docker.io",), "{{.Driver}}")),
        Observe(AGENT),
    ):
        assert decoded(type(request), json.loads(json.dumps(encoded(request)))) == request


def test_each_fact_about_an_agent_has_a_reader() -> None:
    fields = fields_of(AgentSeen)
    assert fields
    # The facts for `verify` are read by another request, and a stopped machine is not read at all.
    assert set(READERS) == fields.keys() - {"facts", "unread"}
