"""Writing YAML for programs of agents."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.kinds import files as yaml

KEYS = st.text(min_size=1, max_size=12) | st.sampled_from(["off", "1", "1:30", "a: b", "- a", "k" * 140])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_the_sections_of_a_tree_make_the_text_of_the_whole_tree(tree: dict[str, Any]) -> None:
    """The text decides the name of a bundle, so that another text would configure every agent again."""
    assert yaml.dump(tree) == yaml._written(tree)


def test_equal_values_of_other_types_are_told_apart() -> None:
    assert [yaml.dump({"a": value}) for value in (1, True, 1.0, "1")] == ["a: 1\n", "a: true\n", "a: 1.0\n", "a: '1'\n"]
