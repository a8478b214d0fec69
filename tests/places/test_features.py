"""Features of a machine that a token can set: nesting is on, or off if the file leaves it out."""

from __future__ import annotations

import pytest

from paddock.core.converge import up
from places.node import CATTLE, Node


@pytest.mark.parametrize(("template", "found"), [("none", None), ("auto", "nesting=0")])
def test_a_machine_without_features_has_no_nesting(node: Node, template: str, found: str | None) -> None:
    up(node.agent(template=template, machine={"features": []}))
    assert node.config(CATTLE).get("features") == found
    assert node.agent(template=template, machine={"features": []}).plan_up().empty


def test_nesting_is_switched_off_and_on_again(node: Node) -> None:
    up(node.agent())
    for features, found in (([], "nesting=0"), (["nesting"], "nesting=1")):
        plan = node.agent(machine={"features": features}).plan_up()
        assert [step.id for step in plan.steps][:2] == ["cattle.change", "cattle.restart"]
        up(node.agent(machine={"features": features}))
        assert node.config(CATTLE)["features"] == found
        assert node.agent(machine={"features": features}).plan_up().empty


def test_features_of_root_without_nesting_are_all_that_a_machine_has(node: Node) -> None:
    up(node.agent(template="auto"))
    [work] = [step for step in node.agent(machine={"features": ["keyctl"]}).plan_up().steps if step.commands]
    assert any("keyctl=1,nesting=0" in command for command in work.commands), work.commands
