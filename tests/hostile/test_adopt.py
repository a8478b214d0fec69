"""A `.paddock` directory, links and names that the agent planted before `adopt` are not trusted."""

from __future__ import annotations

from typing import Final

import pytest

from hostile import agents, before_calls
from hostile.ground import ATTACKER, Machine, as_root
from paddock.base.process import Result
from paddock.onboard.state.claim import ClaimState

pytestmark = as_root

STATE: Final = "/srv/state"


def claiming(state: str = STATE) -> ClaimState:
    agent = agents.systemd(state={"path": state}).deployed
    return ClaimState(agent, False, "nobody-of-that-name", ATTACKER, ATTACKER)


def claim(ground: Machine, state: str = STATE) -> Result:
    return ground.ask(claiming(state)).result


@pytest.fixture
def state(ground: Machine) -> Machine:
    """Create a directory that the agent owns and Paddock has not seen."""
    ground.root('mkdir "$1" && chown "$2:$2" "$1" && echo before >/etc/canary', STATE, str(ATTACKER))
    ground.agent('cd "$1" && echo learned >notes && echo mine >.hidden', STATE)
    return ground


def expect_claimed(ground: Machine) -> None:
    assert ground.read(f"{STATE}/home/notes") == "learned\n"
    assert ground.read(f"{STATE}/home/.hidden") == "mine\n"
    assert ground.root('stat -c "%u %a" "$1/.paddock"', STATE) == "0 700\n"
    assert ground.read(f"{STATE}/.paddock/identity").startswith("version=2\nagent=home_bee\n")


def test_adopt_does_not_follow_a_planted_link_in_its_own_directory(state: Machine) -> None:
    state.agent('cd "$1" && mkdir .paddock && ln -s /etc .paddock/adopting', STATE)
    state.root("mkdir /etc/kept-by-root")
    claim(state)
    assert state.read("/etc/canary") == "before\n", "/etc became the agent's home"
    assert state.exists("/etc/kept-by-root")
    assert not state.exists("/etc/notes"), "the agent's files were moved into /etc"
    expect_claimed(state)


def test_adopt_does_not_use_a_paddock_directory_that_the_agent_owns(state: Machine) -> None:
    state.agent('cd "$1" && mkdir -m 700 .paddock && echo agent=home_bee >.paddock/identity', STATE)
    state.agent('cd "$1/.paddock" && ln -s /etc/canary holder && ln -s /etc/canary lease', STATE)
    claim(state)
    owner = state.root('stat -c %u "$1/.paddock"', STATE).strip()
    assert owner == "0", f"Paddock keeps its lease in a directory of uid {owner}"
    expect_claimed(state)


def test_adopt_does_not_use_a_planted_temporary_directory(state: Machine) -> None:
    state.agent('cd "$1" && mkdir -m 777 .paddock.new && ln -s /etc .paddock.new/adopting', STATE)
    claim(state)
    assert not state.exists("/etc/notes"), "the agent's files were moved into /etc"
    expect_claimed(state)


@pytest.mark.parametrize("entry", ["../../../etc/canary", "/etc/canary", "a/../../../../etc/canary"])
def test_a_locked_path_outside_the_home_is_refused(ground: Machine, entry: str) -> None:
    """Root deletes the files listed in `.paddock/locked`, which the agent could write before it was adopted."""
    runtime = agents.systemd()
    agents.installed(ground, runtime)
    ground.root('echo before >/etc/canary && echo "$2" >"$1/.paddock/locked"', runtime.paths.state, entry)
    result = agents.apply(ground, runtime)
    assert ground.read("/etc/canary") == "before\n"
    assert not result.ok, "the path was accepted"


@pytest.mark.parametrize("function", ["rename", "mkdir"])
def test_the_agent_cannot_change_the_state_directory_while_root_moves_files(state: Machine, function: str) -> None:
    """The agent could create a link with the name of a file or directory that root is about to create."""
    answer = before_calls.ask(state, claiming(), f"ln -sfn /etc {STATE}/raced", [function])
    assert answer.result.ok, answer.result.err
    assert not state.exists(f"{STATE}/raced"), "the agent created a link in the state directory while root used it"
    assert not state.exists(f"{STATE}/home/raced")
    expect_claimed(state)


def test_adopt_does_not_change_the_owner_of_a_file_hard_linked_from_outside(state: Machine) -> None:
    """Some kernels let any user create a hard link to a file of root."""
    state.root('echo secret >"/srv/shadow" && chmod 600 /srv/shadow && ln /srv/shadow "$1/mine"', STATE)
    claim(state)
    owner = state.root("stat -c %u /srv/shadow").strip()
    assert owner == "0", f"a file outside of the state now belongs to uid {owner}"


def test_a_state_in_a_directory_of_the_agent_is_refused(ground: Machine) -> None:
    """The agent could replace the state directory by a link at any moment."""
    ground.root("mkdir -p /srv/theirs/state && chown -R $1:$1 /srv/theirs", str(ATTACKER))
    result = claim(ground, "/srv/theirs/state")
    assert not result.ok, "root works in a directory that the agent can replace"
    assert "users other than root can write to /srv/theirs" in result.err


def test_up_does_not_use_a_planted_directory(ground: Machine) -> None:
    """`up` claims an empty state without `adopt`, and must not follow planted links either."""
    runtime = agents.systemd()
    ground.root('mkdir -p "$1" && chown "$2:$2" "$1"', runtime.paths.state, str(ATTACKER))
    ground.agent('cd "$1" && mkdir .paddock && ln -s /etc/made .paddock/identity.new', runtime.paths.state)
    result = agents.apply(ground, runtime)
    assert not ground.exists("/etc/made"), "root wrote through a link of the agent"
    assert not result.ok
    assert "is not a directory that only root can enter" in result.err
