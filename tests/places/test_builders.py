"""Builders that a failed or killed build left on the node: every verb about templates knows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import up
from paddock.places.contract import TemplateInfo
from paddock.verbs import templates
from places.node import DEPLOYER, Killed, Node, PaperAgent

FIRST = 102  # the number of the first builder, beside a pet and a machine
CREATED, REACHED, MARKED, ASKED, CONVERTED = 4, 6, 8, 9, 10  # writing requests of an `up` from the start


def other_contents(node: Node, **options: Any) -> PaperAgent:
    """The same agent with another package, and so with another template."""
    return node.agent(template="auto", packages=["cowsay"], **options)


def killed(node: Node, after: int) -> None:
    node.kill_after = after
    with pytest.raises(Killed):
        up(node.agent(template="auto"))
    node.kill_after = 0


def listed(node: Node, agent: PaperAgent | None = None) -> list[TemplateInfo]:
    place = (agent or node.agent(template="auto")).node
    return list(place.templates.listed(place.observe()))


@pytest.mark.parametrize("after", [CREATED, REACHED, MARKED])
def test_the_next_build_of_other_contents_removes_the_builder_of_a_killed_run(node: Node, after: int) -> None:
    killed(node, after)
    assert [info.status.partition(",")[0] for info in listed(node)] == ["interrupted"]
    up(other_contents(node))
    assert [info.status for info in listed(node)] == ["finished"]
    assert node.running == [101]
    assert len(node.vmids) == 3


def test_list_shows_and_prune_removes_a_running_builder(node: Node) -> None:
    killed(node, REACHED)
    assert FIRST in node.running
    [info] = listed(node)
    assert (info.number, info.status, info.prunable, info.finished) == (FIRST, "interrupted, running", True, False)
    agent = node.agent(template="auto")
    assert list(templates.prune([agent], really=False)) == [
        f"home: unfinished template {FIRST} (service {info.template}) would be removed with --yes"
    ]
    assert FIRST in node.running
    assert list(templates.prune([agent], really=True)) == [
        f"home: unfinished template {FIRST} (service {info.template}) removed"
    ]
    assert FIRST not in node.vmids
    assert listed(node) == []
    assert list(templates.prune([node.agent(template="auto")], really=True)) == ["nothing to remove"]


def test_a_builder_that_another_run_uses_is_named_and_left_alone(node: Node) -> None:
    killed(node, REACHED)
    theirs = node.agent(template="auto", alongside=True)  # the first run still holds its claim
    [info] = listed(node, theirs)
    assert info.status.startswith("built by ")
    assert not info.prunable
    assert list(templates.prune([theirs], really=True)) == ["nothing to remove"]
    up(other_contents(node, alongside=True))
    assert FIRST in node.running
    with pytest.raises(Refused, match=f"is building template {info.template} in container {FIRST}"):
        list(templates.build([node.agent(template="auto", alongside=True)], rebuild=False))


def test_a_builder_whose_claim_has_expired_counts_as_interrupted(node: Node) -> None:
    killed(node, REACHED)
    node.clock = lambda: datetime.now(UTC) + timedelta(minutes=61)
    up(other_contents(node, alongside=True))
    assert FIRST not in node.vmids


@pytest.mark.parametrize("after", [MARKED, ASKED])
def test_a_template_that_is_being_converted_is_never_without_a_claim(node: Node, after: int) -> None:
    killed(node, after)
    notes = node.config(FIRST)["description"]
    assert "role=template" in notes
    assert "paddock-claim:" in notes
    up(node.agent(template="auto"))
    made = [vmid for vmid in node.vmids if node.config(vmid).get("template")]
    assert len(made) == 1
    assert "paddock-claim:" not in node.config(made[0])["description"]


def test_a_finished_template_has_no_claim(node: Node) -> None:
    up(node.agent(template="auto"))
    assert "paddock-claim:" not in node.config(FIRST)["description"]


def test_prune_refuses_a_builder_that_became_a_template_meanwhile(node: Node) -> None:
    killed(node, REACHED)
    agent = node.agent(template="auto")
    found = agent.node.observe()
    [info] = agent.node.templates.listed(found)
    node.put(FIRST, description=node.config(FIRST)["description"].replace("role=builder", "role=template"))
    with pytest.raises(PaddockError, match="is not the container that was planned for"):
        agent.node.templates.remove(info, found)
    assert FIRST in node.vmids


def test_a_container_with_a_volume_is_never_removed_as_a_builder(node: Node) -> None:
    killed(node, REACHED)
    node.root("pct", "stop", FIRST)
    node.root("pct", "set", FIRST, "-mp0", "local-lvm:1,mp=/srv")
    with pytest.raises(Refused, match="still has volumes: mp0"):
        list(templates.prune([node.agent(template="auto")], really=True))
    assert FIRST in node.vmids


def test_a_mark_outside_the_pools_makes_no_builder(node: Node) -> None:
    node.somebody(200, description="paddock: v=2 role=builder template=abc epoch=1", hostname="trap")
    pools = {"machines": "paddock", "state": "paddock-state"}
    agent = node.agent(template="auto", token=DEPLOYER, pools=pools)
    assert list(templates.prune([agent], really=True)) == ["nothing to remove"]
    assert 200 in node.vmids
