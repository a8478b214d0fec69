"""A copy shares nothing with its agent, and only what was made for a drill is removed without asking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from core.memory_place import MemoryPlace
from paddock.base.errors import BadInput, Refused
from paddock.core.deployment import Deployment, Incoming
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import locate, resolve
from paddock.file.models.fields import Name
from paddock.kinds import KINDS
from paddock.places.contract import AnyPlace
from paddock.show.reporter import Reporter
from paddock.verbs import copies

AGENT: dict[str, Any] = {
    "kind": "hermes",
    "version": "0.19.0",
    "place": "somewhere",
    "settings": {
        "model": {"provider": "custom:lab", "default": "m"},
        "providers": {"lab": {"base_url": "http://10.0.0.5:4000/v1", "key_env": "LAB_KEY"}},
    },
    "secrets": {"LAB_KEY": {"env": "NOT_SET_ANYWHERE"}},
    "machine": {"vmid": 105, "hostname": "hermes-box", "net": {"address": "10.0.0.9/24", "mac": "BC:24:11:01:02:03"}},
    "state": {"path": "/srv/big/hermes", "pet": 999, "size": "20G"},
    "mounts": [{"host": "/tank/photos", "path": "/photos"}],
    "working_directory": "/photos/work",
    "expose": {"api_server": 8642},
}
INCOMING = Incoming("backup x", 1, open=lambda: cast(Any, None))


def agent(**more: Any) -> Deployment:
    return Deployment(
        machine_side=OnMachine(),
        project="home",
        name="hermes",
        spec=KINDS.agent_from({**AGENT, **more}),
        folder=Path(),
        place=cast("AnyPlace", MemoryPlace()),
        recipe=KINDS["hermes"],
        reporter=Reporter().of("hermes"),
    )


def test_no_file_can_have_an_agent_with_the_name_of_a_drill() -> None:
    name = copies.throwaway_name("hermes")
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)
    assert copies.is_throwaway(replace(agent(), name=name).id)
    assert not copies.is_throwaway(agent().id)


def test_a_copy_shares_nothing_with_its_agent() -> None:
    copy = copies.copy_of(agent(), copies.throwaway_name("hermes"), INCOMING)
    spec = copy.spec
    assert str(copy.id) == "home_0drill-hermes"
    assert (spec.machine.vmid, spec.machine.hostname, spec.machine.net.mac) == (None, None, None)
    assert spec.machine.net.address == "dhcp"
    assert not spec.machine.start_on_boot
    assert spec.state.path == "/srv/big/0drill-hermes"
    assert (spec.state.pet.vmid, str(spec.state.size)) == (None, "20G")
    assert (spec.mounts, spec.expose, spec.working_directory) == ([], {}, "workspace")
    assert spec.network.egress == []
    assert copy.formers == ()
    assert copy.incoming
    assert ".hermes/cron" in copy.incoming.aside
    assert ".ssh" in copy.incoming.aside


def test_a_copy_reaches_only_the_stand_in_and_asks_for_no_names() -> None:
    resolved = resolve(locate(copies.copy_of(agent(), copies.throwaway_name("hermes"), INCOMING)))
    rules = resolved.bundle.files["egress.json"].content
    assert '"names": false' in rules
    assert "18642" in rules
    assert "10.0.0.5" not in rules
    assert resolved.want().stand_in
    assert resolved.want().added == {"nftables"}


def test_a_copy_of_a_closed_agent_is_made_from_the_same_template() -> None:
    original = agent(network={"egress": "internet"})
    copy = copies.copy_of(original, copies.throwaway_name("hermes"), INCOMING)
    assert locate(copy).contents.id == locate(original).contents.id
    opened = copies.copy_of(agent(), copies.throwaway_name("hermes"), INCOMING)
    assert locate(opened).contents.id == locate(agent()).contents.id


@pytest.mark.parametrize(
    "more",
    [
        {"runtime": "process", "mounts": []},
        {"runtime": "docker", "container": {"options": ["--network", "bridge"]}},
        {"runtime": "docker", "container": {"options": ["--cap-add=NET_ADMIN"]}},
    ],
)
def test_an_agent_whose_copy_could_connect_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="a copy of hermes could act"):
        copies.copy_of(agent(**more), copies.throwaway_name("hermes"), INCOMING)


def test_only_what_was_made_for_a_drill_is_removed_without_asking() -> None:
    with pytest.raises(BadInput, match="was not created for a drill"):
        copies.remove(agent())
