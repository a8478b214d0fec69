"""Finding 9: `forget` deleted volumes that the user had not agreed to, and a pet's root disk before its state."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import PaddockError
from paddock.run.verbs import down, forget, plan_forget, up
from places.node import CATTLE, PET, Killed, Node, PaperAgent, play_ssh

STATE = "local-lvm:vm-100-disk-1"
DATA: dict[str, Any] = {"runtime": "docker", "container": {"base": "docker.io/library/busybox:1", "data": "1G"}}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", state={"pet": PET})


def forgotten(agent: PaperAgent) -> str:
    """Run `forget` as for a user who agrees at once."""
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def everything_of_the_pet_is_there(node: Node) -> None:
    assert "vm-100-disk-1" in node.volumes, "the state was deleted"
    assert "vm-100-disk-0" in node.volumes, "the root disk of the pet was deleted"
    assert node.config(PET)["protection"] == 1, "the pet has lost its protection"


# After the user's answer, `forget` plans again


def test_forget_keeps_the_state_of_a_machine_that_came_up_before_the_answer(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    agent = node.agent()
    seen, plan = plan_forget(agent)
    up(node.agent())
    with suppress(PaddockError):
        forget(agent, plan, seen)
    everything_of_the_pet_is_there(node)
    assert node.running == [CATTLE]


def test_forget_is_refused_when_its_plan_changed_before_the_answer(node: Node) -> None:
    """The first plan destroyed the pet. The pet now holds another agent's state too, so the plan differs."""
    up(node.agent())
    down(node.agent())
    agent = node.agent()
    seen, plan = plan_forget(agent)
    up(ant(node))
    said = ""
    try:
        forget(agent, plan, seen)
    except PaddockError as end:
        said = end.message
    everything_of_the_pet_is_there(node)
    assert "the plan has changed since it was shown" in said


def test_forget_keeps_a_volume_that_was_swapped_before_the_answer(node: Node) -> None:
    up(node.agent())
    up(ant(node))
    down(node.agent())
    down(ant(node))
    agent = ant(node)
    seen, plan = plan_forget(agent)
    mine, other = node.config(PET)["mp1"], node.config(PET)["mp0"]
    node.put(
        PET,
        mp0=other.replace("disk-1", "disk-2"),  # the two agents' volumes change places
        mp1=mine.replace("disk-2", "disk-1"),
    )
    with suppress(PaddockError):
        forget(agent, plan, seen)
    assert "vm-100-disk-2" in node.volumes, "the state of another agent was deleted"
    assert "vm-100-disk-1" in node.volumes, "a volume was deleted that was not shown"


def test_forget_holds_the_agent_lock_from_its_second_plan_to_the_last_delete(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    agent = node.agent()
    seen, plan = plan_forget(agent)
    ends: list[str] = []

    def elsewhere() -> None:
        try:
            up(node.agent())
        except PaddockError as end:
            ends.append(end.message)

    node.before("GET", "/nodes/pve/tasks", elsewhere)
    with suppress(PaddockError):
        forget(agent, plan, seen)
    node.forget_what_was_to_happen()
    assert ends, "forget did not observe again after the answer"
    assert "another run is working on it" in ends[0]


# Before each delete, `forget` reads again which containers use the volume


@pytest.mark.parametrize("shared", [False, True])
def test_forget_keeps_a_volume_that_another_container_mounts_right_before_the_delete(node: Node, shared: bool) -> None:
    up(node.agent())
    down(node.agent())
    if shared:
        up(ant(node))
    node.somebody(150, pool="paddock", hostname="thief")
    agent = node.agent()
    seen, plan = plan_forget(agent)
    agent.told.when("and all that bee has learned", lambda: node.put(150, mp0=f"{STATE},mp=/mnt"))
    with suppress(PaddockError):
        forget(agent, plan, seen)
    everything_of_the_pet_is_there(node)
    assert "forgetting" not in node.config(PET)["description"]
    up(node.agent())  # the agent is intact


def test_forget_keeps_a_volume_whose_removal_from_a_running_container_is_pending(node: Node) -> None:
    """Proxmox no longer lists such a volume in the configuration, but it stays mounted until the container stops."""
    up(node.agent())
    down(node.agent())
    node.somebody(150, pool="paddock", hostname="thief", mp0=f"{STATE},mp=/mnt")
    node.root("pct", "start", 150)
    node.somebody_asks("PUT", "/nodes/pve/lxc/150/config", delete="mp0")
    agent = node.agent()
    with suppress(PaddockError):
        forgotten(agent)
    everything_of_the_pet_is_there(node)


# `forget` deletes the state first, and the pet's root disk last


def test_forget_keeps_the_root_disk_of_a_pet_whose_cache_volume_is_in_use(node: Node) -> None:
    """Proxmox deletes the root disk first, and fails only then at a volume that is mounted."""
    up(node.agent(**DATA))
    cache = next(text for key, text in node.config(PET).items() if "paddock-cache" in str(text)).partition(",")[0]
    down(node.agent(**DATA))
    node.somebody(150, pool="paddock", hostname="thief", mp0=f"{cache},mp=/mnt")
    node.root("pct", "start", 150)
    agent = node.agent(**DATA)
    with suppress(PaddockError):
        forgotten(agent)
    everything_of_the_pet_is_there(node)


def test_forget_can_be_repeated_after_a_delete_failed(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    busy = node.world.runtime.volumes._busy  # type: ignore[attr-defined]
    node.world.runtime.volumes._busy = lambda ref: ref.name == "vm-100-disk-1"  # type: ignore[attr-defined]
    agent = node.agent()
    with pytest.raises(PaddockError):
        forgotten(agent)
    everything_of_the_pet_is_there(node)
    node.world.runtime.volumes._busy = busy  # type: ignore[attr-defined]
    agent = node.agent()
    assert "forgotten" in forgotten(agent)
    assert (node.vmids, node.volumes) == ([], set())


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("after", range(1, 7))
def test_a_killed_forget_of_a_whole_pet_is_finished_by_the_next_forget(node: Node, after: int, data: bool) -> None:
    keys = DATA if data else {}
    up(node.agent(**keys))
    down(node.agent(**keys))
    node.sent.clear()
    node.kill_after = after
    agent = node.agent(**keys)
    with suppress(Killed):
        forgotten(agent)
    assert "vm-100-disk-0" in node.volumes or "vm-100-disk-1" not in node.volumes, (
        "the root disk was deleted before the state"
    )
    agent = node.agent(**keys)
    forgotten(agent)
    assert (node.vmids, node.volumes) == ([], set()), "forget left a container or a volume behind"


def test_forget_does_not_start_while_the_pet_is_deleting_another_agents_volume(node: Node) -> None:
    """The pet's mark names one volume that is being deleted. Overwriting it would orphan that volume."""
    up(node.agent())
    up(ant(node))
    down(node.agent())
    down(ant(node))
    node.sent.clear()
    node.kill_after = 2
    agent = ant(node)
    with pytest.raises(Killed):
        forgotten(agent)
    agent = node.agent()
    with suppress(PaddockError):
        forgotten(agent)
    for each in (ant(node), node.agent()):
        forgotten(each)
    assert (node.vmids, node.volumes) == ([], set()), "forget left a container or a volume behind"


def test_forget_keeps_a_volume_that_is_given_to_another_agent_before_the_delete(node: Node) -> None:
    """The volume's mount path gets another agent's name between the second plan and the delete."""
    up(node.agent())
    up(ant(node))
    down(node.agent())
    down(ant(node))
    agent = ant(node)
    seen, plan = plan_forget(agent)
    cow = node.config(PET)["mp1"].replace("_ant", "_cow")
    agent.told.when("and all that ant has learned", lambda: node.put(PET, mp1=cow))
    with suppress(PaddockError):
        forget(agent, plan, seen)
    assert "vm-100-disk-2" in node.volumes, "the state of another agent was deleted"
