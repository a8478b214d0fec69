"""The observation that several agents of a run share, and the requests that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.converge import up
from places.node import CATTLE, PET, Node, PaperAgent

LISTING = "/nodes/pve/lxc"


def listings(node: Node) -> int:
    return [sent.path for sent in node.sent].count(LISTING)


def observed(agent: PaperAgent) -> object:
    return agent.node.observed(agent.machine_want)


def test_agents_share_one_reading(node: Node) -> None:
    up(node.agent())
    agent = node.agent()
    node.sent.clear()
    assert observed(agent) is not None
    assert observed(agent) is not None
    assert agent.node.observed() is not None
    assert listings(node) == 1


def test_a_new_reading_is_made_when_the_shared_one_is_old(node: Node) -> None:
    agent = node.agent()
    node.sent.clear()
    assert observed(agent) is not None
    node.waits.passed += 59
    assert observed(agent) is not None
    assert listings(node) == 1
    node.waits.passed += 2
    assert observed(agent) is not None
    assert listings(node) == 2


def test_nothing_is_shared_once_the_run_has_changed_something(node: Node) -> None:
    up(node.agent())
    agent = node.agent(machine={"cores": 4})
    assert observed(agent) is not None
    up(agent)
    assert observed(agent) is None


@pytest.mark.parametrize("vmid", [PET, CATTLE])
def test_an_agent_whose_container_is_locked_needs_an_observation_of_its_own(node: Node, vmid: int) -> None:
    up(node.agent())
    node.put(vmid, lock="rollback")
    assert observed(node.agent()) is None
    assert observed(node.agent("wasp")) is not None


def test_a_new_agent_needs_its_own_observation_while_a_container_is_being_created(node: Node) -> None:
    up(node.agent())
    node.put(CATTLE, description=None, lock="create")
    assert observed(node.agent("wasp")) is None


def test_hidden_numbers_are_asked_for_once_for_all_new_agents(node: Node) -> None:
    node.somebody(100)
    agent = node.agent()
    node.sent.clear()
    for name in ("bee", "wasp", "ant"):
        want = node.agent(name, alongside=True).machine_want
        seen = agent.node.observed(want)
        assert seen is not None
        assert 100 in seen.taken
    assert len([sent for sent in node.sent if sent.path == "/cluster/nextid"]) == 4


def test_one_request_reads_a_machine_with_its_pending_changes(node: Node) -> None:
    up(node.agent(machine={"net": {"address": "10.0.0.101/24"}}))
    node.root("pct", "set", CATTLE, "-nameserver", "1.1.1.1", "-description", node.config(CATTLE)["description"])
    node.root("pct", "set", CATTLE, "-delete", "mp0")
    shown = node.client().get(f"{LISTING}/{CATTLE}/config")
    agent = node.agent(machine={"net": {"address": "10.0.0.101/24"}})
    node.sent.clear()
    seen = agent.node.observe(agent.machine_want).containers[CATTLE]
    assert seen.config == shown
    assert "mp0" not in seen.config
    assert seen.pending == {"nameserver", "mp0"}
    assert seen.address == "10.0.0.101"
    assert [sent.path for sent in node.sent if f"/{CATTLE}/" in sent.path] == [f"{LISTING}/{CATTLE}/pending"]


def test_only_machines_of_the_agent_are_asked_for_their_addresses(node: Node) -> None:
    up(node.agent())
    up(node.agent("wasp"))
    wasps = max(node.running)
    agent = node.agent("wasp")
    node.sent.clear()
    assert agent.observe().machine.address == f"10.0.0.{wasps}"
    assert [sent.path for sent in node.sent if "interfaces" in sent.path] == [f"{LISTING}/{wasps}/interfaces"]


def test_a_machine_without_the_tag_is_read_with_its_pending_changes_too(node: Node) -> None:
    up(node.agent())
    node.root("pct", "set", CATTLE, "-nameserver", "1.1.1.1")
    node.put(CATTLE, tags=None)
    agent = node.agent()
    assert agent.node.observe(agent.machine_want).containers[CATTLE].pending == {"nameserver"}


def test_the_node_is_asked_for_an_address_that_is_about_to_change(node: Node) -> None:
    fixed: dict[str, Any] = {"machine": {"net": {"address": "10.9.9.101/24"}}}
    up(node.agent(**fixed))
    agent = node.agent(**fixed)
    assert agent.observe().machine.address == "10.9.9.101"
    node.rewrite = _with_pending_card
    node.machines.given[CATTLE] = "10.0.0.101"
    again = node.agent(**fixed)
    assert again.node.observe(again.machine_want).containers[CATTLE].address == f"10.0.0.{CATTLE}"


def _with_pending_card(answer: Any) -> Any:
    """Return an answer of the node in which a change of the machine's network card waits for a restart."""
    for row in answer["data"] if isinstance(answer["data"], list) else []:
        if row.get("key") == "net0":
            row["pending"] = row["value"]
    return answer


def test_how_a_machine_maps_users_is_read_for_an_agent_with_mounts(node: Node) -> None:
    mounts: dict[str, Any] = {"mounts": [{"host": "/srv/data", "path": "/data"}]}
    up(node.agent())
    config = node.world.configs.load(CATTLE, "pve")
    config.raw_lxc = [("lxc.idmap", "u 0 200000 65536"), ("lxc.idmap", "g 0 200000 65536")]
    node.world.configs.save(CATTLE, "pve", config)
    agent = node.agent(**mounts)
    seen = agent.node.observe(agent.machine_want)
    uid = agent.spec.user.uid
    assert agent.node.machine(agent.machine_want, seen).owner == f"{200000 + uid}:{200000 + uid}"
