"""`forget` deletes what the person agreed to, as the node is after the answer, and the memory before the root disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import PaddockError
from paddock.run.verbs import down, forget, plan_forget, up
from places.node import CATTLE, PET, Killed, Node, PaperAgent, play_ssh

STATE = "local-lvm:vm-100-disk-1"
DATA: dict[str, Any] = {"runtime": "docker", "container": {"image": "docker.io/library/busybox:1", "data": "1G"}}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", state={"pet": PET})


def forgotten(agent: PaperAgent) -> str:
    """What the verb does when the person agrees at once."""
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def everything_of_the_pet_is_there(node: Node) -> None:
    assert "vm-100-disk-1" in node.volumes, "the memory was deleted"
    assert "vm-100-disk-0" in node.volumes, "the root disk of the pet was deleted"
    assert node.config(PET)["protection"] == 1, "the pet has lost its protection"


# The plan is made again after the answer


def test_a_machine_that_came_up_during_the_question_keeps_its_memory(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    agent = node.agent()
    seen, plan = plan_forget(agent)
    up(node.agent())
    with suppress(PaddockError):
        forget(agent, plan, seen)
    everything_of_the_pet_is_there(node)
    assert node.running == [CATTLE]


def test_a_plan_that_changed_during_the_question_is_refused(node: Node) -> None:
    """The pet was to be destroyed; now it also holds the memory of another agent, and the plan is another one."""
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
    assert "is not what was shown" in said


def test_a_volume_that_was_exchanged_during_the_question_is_not_deleted(node: Node) -> None:
    up(node.agent())
    up(ant(node))
    down(node.agent())
    down(ant(node))
    agent = ant(node)
    seen, plan = plan_forget(agent)
    mine, other = node.config(PET)["mp1"], node.config(PET)["mp0"]
    node.put(
        PET,
        mp0=other.replace("disk-1", "disk-2"),  # somebody corrects which volume is whose
        mp1=mine.replace("disk-2", "disk-1"),
    )
    with suppress(PaddockError):
        forget(agent, plan, seen)
    assert "vm-100-disk-2" in node.volumes, "the memory of another agent was deleted"
    assert "vm-100-disk-1" in node.volumes, "a volume was deleted that was not shown"


def test_nothing_else_works_on_the_agent_while_it_is_forgotten(node: Node) -> None:
    """From the second look until the last delete, under the lock of the agent and of the place."""
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
    assert ends, "forget did not look again after the answer"
    assert "another run is at work" in ends[0]


# Who uses the volume is read again before each delete


@pytest.mark.parametrize("shared", [False, True])
def test_a_volume_that_somebody_mounts_right_before_the_delete_stays(node: Node, shared: bool) -> None:
    up(node.agent())
    down(node.agent())
    if shared:
        up(ant(node))
    node.somebody(150, hostname="thief")
    agent = node.agent()
    seen, plan = plan_forget(agent)
    agent.told.when("and all that bee has learned", lambda: node.put(150, mp0=f"{STATE},mp=/mnt"))
    with suppress(PaddockError):
        forget(agent, plan, seen)
    everything_of_the_pet_is_there(node)
    assert "forgetting" not in node.config(PET)["description"]
    up(node.agent())  # nothing is half forgotten


def test_a_volume_that_a_running_container_lets_go_only_with_its_next_stop_stays(node: Node) -> None:
    """Proxmox no longer names such a volume in the configuration, but it is still mounted."""
    up(node.agent())
    down(node.agent())
    node.somebody(150, hostname="thief", mp0=f"{STATE},mp=/mnt")
    node.root("pct", "start", 150)
    node.somebody_asks("PUT", "/nodes/pve/lxc/150/config", delete="mp0")
    agent = node.agent()
    with suppress(PaddockError):
        forgotten(agent)
    everything_of_the_pet_is_there(node)


# The memory goes first, the root disk of the pet last


def test_the_root_disk_of_a_pet_whose_cache_is_in_use_stays(node: Node) -> None:
    """Proxmox deletes a root disk first, and then finds that it cannot delete a volume that is mounted."""
    up(node.agent(**DATA))
    cache = next(text for key, text in node.config(PET).items() if "paddock-cache" in str(text)).partition(",")[0]
    down(node.agent(**DATA))
    node.somebody(150, hostname="thief", mp0=f"{cache},mp=/mnt")
    node.root("pct", "start", 150)
    agent = node.agent(**DATA)
    with suppress(PaddockError):
        forgotten(agent)
    everything_of_the_pet_is_there(node)


def test_a_delete_that_fails_leaves_a_pet_that_can_be_forgotten_again(node: Node) -> None:
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
def test_forget_of_a_whole_pet_that_is_cut_off_is_finished_by_the_next_one(node: Node, after: int, data: bool) -> None:
    keys = DATA if data else {}
    up(node.agent(**keys))
    down(node.agent(**keys))
    node.sent.clear()
    node.kill_after = after
    agent = node.agent(**keys)
    with suppress(Killed):
        forgotten(agent)
    assert "vm-100-disk-0" in node.volumes or "vm-100-disk-1" not in node.volumes, (
        "the root disk went before the memory"
    )
    agent = node.agent(**keys)
    forgotten(agent)
    assert (node.vmids, node.volumes) == ([], set()), "something is left of it"


def test_a_pet_that_is_about_to_forget_another_agent_is_left_to_that(node: Node) -> None:
    """The mark has room for one volume that is being deleted; a second one would make the first one nobody's."""
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
    assert (node.vmids, node.volumes) == ([], set()), "something is left of them"


def test_the_volume_of_another_agent_at_the_same_key_stays(node: Node) -> None:
    """Between the second look and the delete somebody writes another agent's name at the volume."""
    up(node.agent())
    up(ant(node))
    down(node.agent())
    down(ant(node))
    agent = ant(node)
    seen, plan = plan_forget(agent)
    cow = node.config(PET)["mp1"].replace("/ant", "/cow")
    agent.told.when("and all that ant has learned", lambda: node.put(PET, mp1=cow))
    with suppress(PaddockError):
        forget(agent, plan, seen)
    assert "vm-100-disk-2" in node.volumes, "the memory of another agent was deleted"
