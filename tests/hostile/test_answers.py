"""An agent can answer a check with any data: every answer must become a check result, never a traceback."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levels import by_level
from paddock.checks import asked
from paddock.checks.line import Line
from paddock.recipes import KINDS, agent_from
from paddock.recipes.checks import Check
from paddock.recipes.workload import Paths
from paddock.spec.models import AgentSpec

PATHS: Final = Paths.of(code="/opt/c", etc="/etc/c", state_link="/var/lib/.agents/c", state="/var/lib/c")
AGENTS: Final[dict[str, dict[str, Any]]] = {
    "hermes": {"version": "0.19.0", "settings": {"model": {"default": "m"}}, "dashboard": True},
    "litellm": {"version": "1.106.2", "secrets": {"LITELLM_MASTER_KEY": {"env": "KEY"}}},
    "service": {"command": ["x"], "health": {"http": "http://127.0.0.1:1/"}},
}
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS: Final = (
    "status",
    "body",
    "content",
    "refused",
    "found",
    "seconds",
    "choices",
    "code",
    "out",
    "err",
    "data",
    "ok",
)
shaped = st.dictionaries(st.sampled_from(KEYS), json, max_size=4)


def checks(kind: str) -> list[Check]:
    spec: AgentSpec = agent_from({"kind": kind, "place": "here", **AGENTS[kind]})
    recipe = KINDS[spec.kind]
    probes = recipe.probes(spec, "Say ok.", conversation="c")
    return [*asked.of_every_agent("bee", PATHS, probes), *recipe.checks(spec, "bee", PATHS)]


@pytest.mark.parametrize("kind", AGENTS)
@settings(max_examples=by_level(30, 100))
@given(data=st.data())
def test_every_answer_of_an_agent_becomes_check_results(kind: str, data: st.DataObject) -> None:
    questions = checks(kind)
    answers = [{"found": data.draw(shaped), "seconds": 0.1} for _ in questions]
    assert all(isinstance(line, Line) for line in asked.lines(questions, {"uid": 1, "answers": answers}))


@given(found=shaped | st.dictionaries(st.sampled_from(["answers", "refused", "missing", "uid"]), json, max_size=3))
def test_answers_in_an_unexpected_form_become_one_failed_check(found: dict[str, Any]) -> None:
    lines = list(asked.lines(checks("hermes"), found))
    assert [line.check for line in lines] == ["inside"]
