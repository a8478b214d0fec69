"""Pets and machines that two runs create at the same time, and those that an interrupted run did not finish."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.core.converge import down, forget, plan_forget, up
from paddock.places.proxmox.node.notes import Claim, Mark
from places.life import LXC, PETS_VOLUMES, STATE, expect_up
from places.node import CATTLE, PET, Killed, Node, PaperAgent

OTHER = "desk/00000001"
PATH = "/var/lib/paddock/home_bee"
SETTLED = f"maker={OTHER}"
NEW = f"new={OTHER}"


def claim(minutes: float = 15) -> str:
    return f"\npaddock-claim: {OTHER} until {(datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()}"


def other_pet(node: Node, vmid: int, words: str) -> None:
    """A pet of the agent, by another run."""
    mark = f"paddock: v=2 role=pet {words}"
    volume = f"local-lvm:8,mp={PATH}"
    node.somebody(vmid, pool="paddock-state", hostname="bee-pet", description=mark, mp0=volume, protection=1)


def other_machine(node: Node, vmid: int, words: str, **more: Any) -> None:
    """A machine of the agent, by another run."""
    mark = f"paddock: v=2 role=cattle agent=home_bee {words}"
    node.somebody(vmid, pool="paddock", hostname="bee", description=mark, **more)


def gone(node: Node, vmid: int) -> Callable[[], None]:
    """What the maker of a container does that gives way."""

    def remove() -> None:
        node.put(vmid, protection=None)
        node.root("pct", "destroy", vmid)

    return remove


def mark_of(node: Node, vmid: int) -> Mark:
    mark = Mark.from_notes(node.config(vmid)["description"])
    assert mark
    return mark


def at(number: int) -> dict[str, Any]:
    """Keys of a file that names the number of the pet."""
    return {"state": {"pet": number}}


# Pets


@pytest.mark.parametrize(
    ("vmid", "words", "ends"),
    [(150, SETTLED, ""), (250, SETTLED, ""), (150, NEW, claim(minutes=600))],
    ids=["settled-lower", "settled-higher", "running-lower"],
)
def test_a_new_pet_gives_way(node: Node, vmid: int, words: str, ends: str) -> None:
    node.before("POST", LXC, lambda: other_pet(node, vmid, words + ends))
    with pytest.raises(Refused, match=f"{OTHER} created pet {vmid} for bee at the same time") as caught:
        up(node.agent(**at(200)))
    assert "run `paddock up` again" in str(caught.value.hint)
    assert node.vmids == [vmid]
    assert node.config(vmid)["protection"] == 1
    assert node.volumes == {f"vm-{vmid}-disk-0", f"vm-{vmid}-disk-1"}


def test_a_new_pet_waits_until_pets_with_higher_numbers_are_removed(node: Node) -> None:
    node.before("POST", LXC, lambda: other_pet(node, 150, NEW + claim()))
    agent = node.agent()
    agent.told.when(f"{OTHER} also created pet 150; waiting until it is removed", gone(node, 150))
    up(agent)
    expect_up(node)


def test_a_new_pet_gives_way_to_one_that_is_settled_while_it_waits(node: Node) -> None:
    node.before("POST", LXC, lambda: other_pet(node, 150, NEW + claim()))
    agent = node.agent()
    agent.told.when("also created pet 150", lambda: node.put(150, description=f"paddock: v=2 role=pet {SETTLED}"))
    with pytest.raises(Refused, match=f"{OTHER} created pet 150 for bee"):
        up(agent)
    assert node.vmids == [150]


@pytest.mark.parametrize("vmid", [150, 250])
def test_a_pet_whose_maker_died_meanwhile_is_used(node: Node, vmid: int) -> None:
    """Its maker could still settle it, so the new one is removed and the other one is settled by this run."""
    node.before("POST", LXC, lambda: other_pet(node, vmid, NEW + claim(minutes=-1)))
    agent = node.agent()
    node.before("POST", LXC, lambda: None, nth=2)
    up(agent)
    assert f"{OTHER} left container {vmid} (bee-pet) unfinished; observing again" in str(agent.told)
    assert PET not in node.vmids or mark_of(node, PET).role == "cattle"
    assert mark_of(node, vmid).new is None
    [machine] = node.running
    assert node.config(machine)["mp0"].startswith(f"local-lvm:vm-{vmid}-disk-1")


def test_a_pet_is_not_settled_when_another_run_took_it_over(node: Node) -> None:
    def take_over() -> None:
        node.put(PET, description=f"paddock: v=2 role=pet {SETTLED}")

    node.before("GET", f"{LXC}/{PET}/config", take_over)
    agent = node.agent()
    up(agent)
    assert f"another run has taken container {PET} (bee-pet) over; observing again" in str(agent.told)
    assert mark_of(node, PET).maker == OTHER
    expect_up(node)


def test_the_pet_of_a_killed_run_is_settled_before_a_machine_gets_its_state(node: Node) -> None:
    node.kill_after = 1
    with pytest.raises(Killed):
        up(node.agent())
    node.sent.clear()
    up(node.agent())
    settled = next(at for at, sent in enumerate(node.writes) if sent.path == f"{LXC}/{PET}/config")
    attached = next(at for at, sent in enumerate(node.writes) if sent.params.get("mp0", "").startswith(STATE))
    assert settled < attached
    assert "new=" not in node.writes[settled].params["description"]
    expect_up(node)


def leftover(node: Node, **more: Any) -> None:
    """A pet with the state, and one that an interrupted run left."""
    up(node.agent())
    other_pet(node, 150, NEW)
    if more:
        node.put(150, **more)


def test_a_surplus_pet_of_an_interrupted_run_is_removed(node: Node) -> None:
    leftover(node)
    up(node.agent())
    expect_up(node)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"mp1": "local-lvm:vm-150-disk-7,mp=/x"}, "has volumes that it was not created with: mp1"),
        ({"mp0": "local-lvm:vm-150-disk-1,mp=/elsewhere", "mp1": f"local-lvm:vm-150-disk-2,mp={PATH}"}, "mp0, mp1"),
        ({"unused0": "local-lvm:vm-150-disk-7"}, "has volumes that it was not created with: unused0"),
        ({"parent": "snap"}, "was used"),
    ],
)
def test_a_surplus_pet_that_may_have_been_used_is_kept(node: Node, more: dict[str, Any], why: str) -> None:
    leftover(node, **more)
    before = node.config(150)
    with pytest.raises(Refused, match=why):
        up(node.agent())
    assert node.config(150) == before


def test_a_surplus_pet_that_runs_is_kept(node: Node) -> None:
    leftover(node)
    node.root("pct", "start", 150)
    with pytest.raises(Refused, match="was used: it is running"):
        up(node.agent())
    assert 150 in node.vmids


def test_a_surplus_pet_whose_volume_a_container_names_is_kept(node: Node) -> None:
    leftover(node)
    node.somebody(160, pool="paddock", mp0="local-lvm:vm-150-disk-1,mp=/mnt")
    with pytest.raises(
        Refused, match=r"container 160 \(CT160\) uses a volume of container 150 \(bee-pet\), which is kept"
    ):
        up(node.agent())
    assert node.config(150)["protection"] == 1
    assert "vm-150-disk-1" in node.volumes
    assert "claim" not in node.config(150)["description"]


def test_a_container_that_names_the_volume_at_the_last_moment_keeps_the_pet(node: Node) -> None:
    leftover(node)
    volume = "local-lvm:vm-150-disk-1,mp=/mnt"
    node.before("PUT", f"{LXC}/150/config", lambda: node.somebody(160, pool="paddock", mp0=volume))
    with pytest.raises(Refused, match="uses a volume of"):
        up(node.agent())
    assert node.config(150)["protection"] == 1
    assert "vm-150-disk-1" in node.volumes


# Machines


@pytest.mark.parametrize(
    ("vmid", "words", "ends"),
    [(150, SETTLED, ""), (250, SETTLED, ""), (150, NEW, claim(minutes=600))],
    ids=["settled-lower", "settled-higher", "running-lower"],
)
def test_a_new_machine_gives_way_before_it_gets_the_state(node: Node, vmid: int, words: str, ends: str) -> None:
    up(node.agent())
    down(node.agent())
    node.sent.clear()
    node.before("POST", LXC, lambda: other_machine(node, vmid, words + ends))
    with pytest.raises(Refused, match=f"{OTHER} created machine {vmid} for bee at the same time"):
        up(node.agent(machine={"vmid": 200}))
    assert node.vmids == [PET, vmid]
    assert not any("mp0" in sent.params for sent in node.writes)


def test_a_new_machine_waits_until_machines_with_higher_numbers_are_removed(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    node.before("POST", LXC, lambda: other_machine(node, 150, NEW + claim()))
    agent = node.agent()
    agent.told.when(f"{OTHER} also created machine 150; waiting until it is removed", gone(node, 150))
    up(agent)
    expect_up(node)


def test_a_new_machine_replaces_one_whose_maker_died_meanwhile(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    node.before("POST", LXC, lambda: other_machine(node, 150, NEW + claim(minutes=-1)))
    up(node.agent())
    expect_up(node)


def test_a_new_machine_does_not_get_the_state_of_a_pet_that_another_run_claims(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    notes = node.config(PET)["description"]
    node.before("POST", LXC, lambda: node.put(PET, description=notes + claim()))
    with pytest.raises(Refused, match=rf"{OTHER} is at work on container {PET} \(bee-pet\) until"):
        up(node.agent())
    assert node.vmids == [PET]


# Claims of changes to a pet


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", **at(PET))


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


CHANGES: dict[str, Callable[[Node], object]] = {
    "volume": lambda node: up(ant(node)),
    "grow": lambda node: up(node.agent(state={"size": "9G"})),
    "forget": lambda node: forgotten(node.agent()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_pet_respects_the_claim_of_another_run(node: Node, change: str) -> None:
    up(node.agent())
    down(node.agent())
    notes = node.config(PET)["description"]
    node.put(PET, description=notes + claim())
    before = node.config(PET)
    with pytest.raises(Refused, match=rf"{OTHER} is at work on container {PET} \(bee-pet\) until \d\d:\d\d:\d\d UTC"):
        CHANGES[change](node)
    assert node.config(PET) == before


@pytest.mark.parametrize("change", ["volume", "grow"])
def test_a_change_of_a_pet_sees_a_claim_that_came_after_the_plan(node: Node, change: str) -> None:
    up(node.agent())
    down(node.agent())
    notes = node.config(PET)["description"]
    node.sent.clear()
    node.before("PUT", f"{LXC}/{PET}/config", lambda: node.put(PET, description=notes + claim()))
    with pytest.raises(Refused, match=f"{OTHER} is at work on container {PET}"):
        CHANGES[change](node)
    assert node.config(PET)["protection"] == 1
    assert STATE in node.config(PET)["mp0"]


@pytest.mark.parametrize("change", ["volume", "grow"])
def test_a_change_of_a_pet_claims_it_meanwhile(node: Node, change: str) -> None:
    up(node.agent())
    down(node.agent())
    node.sent.clear()
    CHANGES[change](node)
    on_pet = [sent for sent in node.writes if sent.path.startswith(f"{LXC}/{PET}/")]
    assert "paddock-claim: " in on_pet[0].params["description"]
    assert "paddock-claim: " not in on_pet[-1].params["description"]
    assert len(on_pet) == 3
    assert "paddock-claim" not in node.config(PET)["description"]


def test_forget_keeps_the_state_when_a_machine_appears_meanwhile(node: Node) -> None:
    """Another run is about to give the state to that machine."""
    up(node.agent())
    down(node.agent())
    node.before("PUT", f"{LXC}/{PET}/config", lambda: other_machine(node, 150, NEW))
    with pytest.raises(Refused, match=r"container 150 \(bee\) uses local-lvm:vm-100-disk-1, which is kept"):
        forgotten(node.agent())
    assert node.volumes >= PETS_VOLUMES
    assert node.config(PET)["protection"] == 1
    assert "forgetting" not in node.config(PET)["description"]


def test_a_claim_names_the_run_and_lasts_by_the_clock_of_the_node(node: Node) -> None:
    there = datetime(2031, 1, 1, tzinfo=UTC)
    node.clock = lambda: there
    agent = node.agent()
    up(agent)
    made = Claim.from_notes(node.writes[0].params["description"])
    assert made
    assert made.holder == agent.node._holder.name == mark_of(node, PET).maker == mark_of(node, CATTLE).maker
    assert timedelta(minutes=14) < made.until - there < timedelta(minutes=17)
