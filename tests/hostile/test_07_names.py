"""Finding 7: an agent whose name begins another's stopped and deleted the other's units and containers."""

from __future__ import annotations

from typing import Final

import pytest

from hostile import agents
from hostile.ground import Machine, as_root

pytestmark = as_root

# Containers of the machine are files below /srv/containers, with their label as content.
DOCKER: Final = r"""
at=/srv/containers
mkdir -p $at
case "$1" in
    container) shift; for name; do :; done; [ -e "$at/$name" ] && cat "$at/$name" ;;
    create) while [ "$1" != --name ]; do shift; done; echo label >"$at/$2" ;;
    rename) mv "$at/$2" "$at/$3" ;;
    rm) for name; do :; done; rm -f "$at/$name" ;;
    image) exit 0 ;;
esac
"""


def units(ground: Machine) -> list[str]:
    return ground.root("cd /etc/systemd/system && ls | grep '^paddock-.*service$' || true").split()


def other_names(ground: Machine, name: str) -> list[str]:
    return [unit for unit in units(ground) if f"-{name}" in unit]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_an_agent_leaves_the_units_of_one_with_a_longer_name_alone(ground: Machine, verb: str) -> None:
    longer = agents.systemd("bee-two", user={"name": "other", "uid": 54400})
    agents.installed(ground, longer)
    before = units(ground)
    agents.installed(ground, agents.systemd("bee"))
    if verb == "down":
        assert ground.run(agents.systemd("bee").remove()).ok
    assert set(before) <= set(units(ground)), "units of another agent were deleted"
    stops = [call for call in ground.calls if call.startswith("systemctl stop") and "bee-two" in call]
    assert not stops, f"units of another agent were stopped: {stops}"


def test_no_two_agents_have_units_of_one_name() -> None:
    """The unit of process `two-main` of `bee` was that of process `main` of `bee-two`."""
    assert agents.systemd("bee").unit("two-main") != agents.systemd("bee-two").unit("main")


def test_logs_of_an_agent_are_its_own() -> None:
    argv = agents.systemd("bee").logs(10, follow=False)
    pattern = argv[argv.index("--unit") + 1]
    assert not pattern.startswith("paddock-bee-"), "the pattern also takes in bee-two"


def create(ground: Machine, name: str, uid: int, *, replaces: bool = False) -> None:
    runtime = agents.docker(name, user={"name": f"user-{name}", "uid": uid})
    bundle = runtime.bundle(agents.workload(runtime), None, mounted=False)
    result = ground.run(runtime.container.create(bundle.id, replaces=replaces), stdin=bundle.archive({}, {}))
    assert result.ok, result.err


def test_a_container_in_the_making_is_not_the_container_of_another_agent(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    create(ground, "bee-new", 54400)
    ground.root("echo 'precious layer' >>/srv/containers/paddock-bee-new")
    create(ground, "bee", 54401)
    create(ground, "bee", 54401, replaces=True)
    assert ground.exists("/srv/containers/paddock-bee-new"), "the container of bee-new was deleted"
    assert "precious layer" in ground.read("/srv/containers/paddock-bee-new")


def test_removing_an_agent_leaves_the_container_of_another_with_a_longer_name(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    create(ground, "bee-new", 54400)
    create(ground, "bee", 54401)
    assert ground.run(agents.docker("bee").remove()).ok
    assert ground.exists("/srv/containers/paddock-bee-new"), "the container of bee-new was deleted"


def test_a_container_without_the_label_is_not_removed(ground: Machine) -> None:
    ground.stub("docker", DOCKER)
    ground.root("mkdir -p /srv/containers && : >/srv/containers/paddock-bee")
    agents.installed(ground, agents.docker("bee"))
    ground.run(agents.docker("bee").remove())
    assert ground.exists("/srv/containers/paddock-bee"), "a container that Paddock did not make was deleted"


def test_units_of_before_are_replaced(ground: Machine) -> None:
    """Units had other names before; an upgrade stops them and leaves none behind."""
    runtime = agents.systemd("bee")
    agents.installed(ground, runtime)
    ground.root(
        """cd /etc/systemd/system && for part in lease main; do
            ln -s "/etc/paddock/bee/current/units/paddock-bee-$part.service" "paddock-bee-$part.service"
        done
        ln -s x multi-user.target.wants/paddock-bee-lease.service"""
    )
    agents.installed(ground, runtime)
    assert "systemctl stop paddock-bee-lease.service" in ground.calls
    left = ground.run(["find", "/etc/systemd/system", "-name", "paddock-bee-*"]).out.split()
    assert not left
