"""`forget` deletes what the user agreed to, and nothing else; a failed or killed one is finished by the next one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pytest

from hostile import agents
from hostile.ground import Machine, as_root
from hostile.verbs import forgotten
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.core.converge import down, forget, plan_forget, up
from paddock.onboard.state.claim import DeleteState
from paddock.plan import agent as inside
from paddock.runtimes.systemd.runtime import Systemd
from places.node import CATTLE, PET, Killed, Node, PaperAgent

STATE = "local-lvm:vm-100-disk-1"
DATA: dict[str, Any] = {
    "runtime": "docker",
    "container": {"base": "docker.io/library/busybox:1", "data": "1G", "install": True},
}


def ant(node: Node) -> PaperAgent:
    return node.agent("ant", state={"pet": PET})


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


# On a host


RUNTIME: Final = agents.systemd()


def forget_on_host(ground: Machine, runtime: Systemd = RUNTIME) -> Result:
    return ground.ask(DeleteState(runtime.deployed)).result


@pytest.fixture
def taken_down(ground: Machine) -> Machine:
    """Install an agent on a host, write to its state, and take the agent down."""
    agents.installed(ground, RUNTIME)
    ground.agent('cd "$1" && mkdir deep && echo learned >deep/notes', RUNTIME.paths.home)
    assert ground.ask(RUNTIME.remove()).result.ok
    return ground


@as_root
def test_a_forget_that_failed_midway_is_finished_by_the_next_one(taken_down: Machine) -> None:
    """A mount that cannot be deleted stops the first run midway, as a kill would."""
    taken_down.root('mkdir "$1/deep/busy" && mount -t tmpfs none "$1/deep/busy"', RUNTIME.paths.home)
    forget_on_host(taken_down)  # fails midway, or is refused
    taken_down.root(
        'umount "$1"/home/deep/busy 2>/dev/null || umount /var/lib/paddock/.p*/home/deep/busy', RUNTIME.paths.state
    )
    seen = agents.seen(taken_down, RUNTIME)
    known = bool(seen.state_of) or bool(seen.forgotten)
    left = taken_down.run(["find", "/var/lib/paddock", "-name", "notes"]).out
    assert known or not left, f"the next run would not notice the files that are left: {left}"
    result = forget_on_host(taken_down)
    assert result.ok, f"the second forget failed: {result.err}"
    assert not taken_down.exists(RUNTIME.paths.state)


@as_root
def test_a_forget_killed_after_the_rename_is_observed_and_finished(taken_down: Machine) -> None:
    taken_down.root(
        'mv "$1" /var/lib/paddock/.paddock-forgotten-home_bee && rm -r /var/lib/paddock/.*_bee/.paddock',
        RUNTIME.paths.state,
    )
    seen = agents.seen(taken_down, RUNTIME)
    assert seen.forgotten, "the observation does not report the rest of the state"
    want = inside.AgentWant(None, "g", "s", foreground=False)
    refusal = inside.refusal("bee", want, seen)
    assert refusal is not None
    assert "paddock forget" in str(refusal.hint)
    assert forget_on_host(taken_down).ok
    assert not taken_down.exists("/var/lib/paddock/.paddock-forgotten-home_bee")


@as_root
def test_a_forget_killed_while_it_deletes_is_observed_and_finished(taken_down: Machine) -> None:
    """The identity file may be deleted first."""
    taken_down.root(
        """printf '#!/bin/sh\nfor last; do :; done\n/usr/bin/rm -rf "$last/.paddock"\nexit 137\n' >/usr/local/sbin/rm
        chmod 755 /usr/local/sbin/rm"""
    )
    assert not forget_on_host(taken_down).ok
    taken_down.root("/usr/bin/rm /usr/local/sbin/rm")
    seen = agents.seen(taken_down, RUNTIME)
    left = taken_down.run(["find", "/var/lib/paddock", "-name", "notes"]).out
    assert seen.state_of or seen.forgotten, f"the observation does not report {left}"
    assert forget_on_host(taken_down).ok
    assert not taken_down.run(["find", "/var/lib/paddock", "-name", "notes"]).out


@as_root
@pytest.mark.parametrize("kind", ["bind", "tmpfs"])
def test_forget_deletes_nothing_on_a_mounted_filesystem(taken_down: Machine, kind: str) -> None:
    taken_down.root("mkdir -p /srv/photos && echo dear >/srv/photos/one")
    taken_down.root('mkdir "$1/photos"', RUNTIME.paths.home)
    if kind == "bind":
        taken_down.root('mount --bind /srv/photos "$1/photos"', RUNTIME.paths.home)
    else:
        taken_down.root('mount -t tmpfs none "$1/photos" && echo dear >"$1/photos/one"', RUNTIME.paths.home)
    result = forget_on_host(taken_down)
    photo = "/srv/photos/one" if kind == "bind" else f"{RUNTIME.paths.home}/photos/one"
    assert taken_down.exists(photo), "files of another filesystem were deleted through a mount"
    assert not result.ok
    assert "umount" in result.err
    assert taken_down.exists(f"{RUNTIME.paths.home}/deep/notes"), "a refused forget deleted files"
