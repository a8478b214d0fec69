"""An agent stops and deletes no units and containers of another whose name begins with its own name."""

from __future__ import annotations

import pytest

from hostile import agents
from hostile.ground import Machine, as_root
from hostile.stubs import DOCKER

pytestmark = as_root


def units(ground: Machine) -> list[str]:
    return ground.root("cd /etc/systemd/system && ls | grep '^paddock-.*service$' || true").split()


def other_names(ground: Machine, name: str) -> list[str]:
    return [unit for unit in units(ground) if f"_{name}" in unit]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_an_agent_does_not_touch_the_units_of_one_with_a_longer_name(ground: Machine, verb: str) -> None:
    longer = agents.systemd("bee-two", user={"name": "other", "uid": 54400})
    agents.installed(ground, longer)
    before = units(ground)
    agents.installed(ground, agents.systemd("bee"))
    if verb == "down":
        assert ground.ask(agents.systemd("bee").remove()).result.ok
    assert set(before) <= set(units(ground)), "units of another agent were deleted"
    stops = [call for call in ground.calls if call.startswith("systemctl stop") and "bee-two" in call]
    assert not stops, f"units of another agent were stopped: {stops}"


def test_two_agents_never_have_a_unit_with_the_same_name() -> None:
    """Process `two-main` of `bee` and process `main` of `bee-two` had the same unit name."""
    assert agents.systemd("bee").unit("two-main") != agents.systemd("bee-two").unit("main")


def test_the_log_pattern_of_an_agent_does_not_match_another_agent() -> None:
    argv = agents.systemd("bee").logs(10, follow=False)
    pattern = argv[argv.index("--unit") + 1]
    assert pattern == "paddock-home_bee.*.service", "the pattern also matches bee-two"


def create(ground: Machine, name: str, uid: int, *, replaces: bool = False) -> None:
    agents.created(ground, agents.docker(name, user={"name": f"user-{name}", "uid": uid}), replaces=replaces)


def test_the_temporary_name_of_a_new_container_is_not_the_name_of_another_agents(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    create(ground, "bee-new", 54400)
    ground.root("echo layer=precious >>/srv/containers/paddock-home_bee-new")
    create(ground, "bee", 54401)
    create(ground, "bee", 54401, replaces=True)
    assert ground.exists("/srv/containers/paddock-home_bee-new"), "the container of bee-new was deleted"
    assert "layer=precious" in ground.read("/srv/containers/paddock-home_bee-new")


def test_removing_an_agent_leaves_the_container_of_another_with_a_longer_name(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    create(ground, "bee-new", 54400)
    create(ground, "bee", 54401)
    assert ground.ask(agents.docker("bee").remove()).result.ok
    assert ground.exists("/srv/containers/paddock-home_bee-new"), "the container of bee-new was deleted"


def test_a_container_that_names_another_agent_is_not_removed(ground: Machine) -> None:
    """It has the name of this agent's container, as after `docker rename`."""
    ground.stub("docker", DOCKER)
    create(ground, "wasp", 54400)
    ground.root("cd /srv/containers && mv paddock-home_wasp paddock-home_bee")
    agents.installed(ground, agents.docker("bee"))
    assert agents.seen(ground, agents.docker("bee")).container.identity == "foreign"
    assert ground.ask(agents.docker("bee").remove()).result.ok
    assert ground.exists("/srv/containers/paddock-home_bee"), "a container of another agent was deleted"


def test_a_container_without_the_label_is_not_removed(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    ground.root("mkdir -p /srv/containers && : >/srv/containers/paddock-home_bee")
    agents.installed(ground, agents.docker("bee"))
    assert ground.ask(agents.docker("bee").remove()).result.ok
    assert ground.exists("/srv/containers/paddock-home_bee"), "a container that Paddock did not create was deleted"


def test_units_with_the_names_of_an_earlier_version_are_removed(ground: Machine) -> None:
    """An upgrade stops units with old names and deletes them."""
    runtime = agents.systemd("bee")
    agents.installed(ground, runtime)
    ground.root(
        """cd /etc/systemd/system && for part in lease main; do
            ln -s "/etc/paddock/home_bee/current/units/paddock-bee-$part.service" "paddock-bee-$part.service"
        done
        ln -s x multi-user.target.wants/paddock-bee-lease.service"""
    )
    agents.installed(ground, runtime)
    assert "systemctl stop paddock-bee-lease.service" in ground.calls
    left = ground.run(["find", "/etc/systemd/system", "-name", "paddock-bee-*"]).out.split()
    assert not left
