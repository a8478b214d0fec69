"""An agent cannot take all of a host that others use: its units have limits, also those of an earlier version."""

from __future__ import annotations

import pytest

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine

pytestmark = as_root

UNIT = "/etc/systemd/system/paddock-home_bee.main.service.d/paddock-limits.conf"
DEFAULT = ["[Service]", "MemoryMax=80%", "TasksMax=4096", "CPUWeight=50", "IOWeight=50"]


@pytest.fixture
def machine(ground: Machine) -> PrivateMachine:
    return PrivateMachine(ground)


def lines(machine: PrivateMachine) -> list[str]:
    return machine.ground.read(UNIT).splitlines()


def test_units_on_a_host_leave_a_fifth_of_the_memory_to_others(machine: PrivateMachine) -> None:
    machine.apply("bee")
    assert lines(machine) == DEFAULT
    assert list(machine.observe("bee").limits) == DEFAULT[1:]
    assert machine.ground.root("stat -c '%U %a' -L $1", UNIT) == "root 644\n"
    dropped = machine.ground.root("ls /etc/systemd/system | grep '[.]d$'")
    limited = ["paddock-home_bee.enter@.service.d", "paddock-home_bee.main.service.d"]
    assert dropped.split() == limited, "the lease needs no limits"


def test_the_file_decides_memory_and_processors(machine: PrivateMachine) -> None:
    machine.apply("bee", machine={"memory": "512M", "cores": 3})
    assert lines(machine) == [*DEFAULT, "MemoryMax=536870912", "CPUQuota=300%"]
    machine.apply("bee")
    assert lines(machine) == DEFAULT


def test_the_limits_of_an_agent_of_an_earlier_version_come_with_its_next_change(machine: PrivateMachine) -> None:
    machine.apply("bee")
    before = machine.ground.root("readlink /etc/paddock/home_bee/current")
    machine.ground.root(f"rm -r {UNIT.rpartition('/')[0]} /etc/paddock/home_bee/limits.conf")
    assert machine.observe("bee").limits == ()
    machine.apply("bee")
    assert machine.ground.root("readlink /etc/paddock/home_bee/current") == before, "the bundle is the same"
    assert lines(machine) == DEFAULT


def test_a_removed_agent_leaves_no_limits(machine: PrivateMachine) -> None:
    machine.apply("bee")
    machine.remove("bee")
    assert not machine.ground.exists(UNIT.rpartition("/")[0])
    assert not machine.ground.exists("/etc/paddock/home_bee")
