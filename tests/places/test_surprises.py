"""Unexpected behaviour that was recorded from Proxmox's own code, and how Paddock handles it."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.core.converge import cycle, down, up
from paddock.places.proxmox.actions import Destroy, Detach
from paddock.places.proxmox.api.errors import ApiError, BadParameters, Protected, RootOnly
from paddock.plan.actions import CheckStateSize, PlaceAction
from places.node import CATTLE, DEPLOYER, PET, ROOT, WIDE, Node

STATE = "local-lvm:vm-100-disk-1"
LXC = "/nodes/pve/lxc"


def perform(node: Node, action: PlaceAction) -> None:
    """Perform an action on the current observation."""
    agent = node.agent()
    agent.place.perform(action, agent.observe().place, {})


@pytest.mark.parametrize("token", [WIDE, ROOT])
def test_a_token_of_root_has_no_more_rights_than_another(node: Node, token: str) -> None:
    up(node.agent(token=token))
    for params in ({"mp1": "/srv,mp=/x"}, {"dev0": "/dev/fuse"}, {"features": "keyctl=1,nesting=1"}):
        with pytest.raises(RootOnly) as caught:
            node.client(token).send("PUT", f"{LXC}/{CATTLE}/config", params)
        assert "in the node's shell" in str(caught.value.hint)
    down(node.agent(token=token))
    assert node.vmids == [PET]


def test_a_state_volume_is_the_same_with_and_without_its_size(node: Node) -> None:
    """Create stores no ``size=``, PUT does. Earlier versions of Paddock attached the state in the create call."""
    up(node.agent())
    assert "size=8G" in node.config(CATTLE)["mp0"]
    assert "nothing to do" in up(node.agent())
    node.put(CATTLE, mp0=node.config(CATTLE)["mp0"].replace(",size=8G", ""))
    assert "nothing to do" in up(node.agent())


def test_a_clone_gets_its_settings_in_one_put(node: Node) -> None:
    """A clone inherits tags, features and net, and refuses tags, mount points and ssh keys."""
    up(node.agent(template="auto", machine={"tags": ["ai"], "cores": 3}))
    clone = next(sent for sent in node.writes if sent.path.endswith("/clone"))
    assert clone.params.keys() == {"newid", "hostname", "description", "pool"}
    for key, value in (("tags", "x"), ("mp0", f"{STATE},mp=/x"), ("ssh-public-keys", "ssh-ed25519 AAAA")):
        with pytest.raises(BadParameters, match=key):
            node.client().send("POST", clone.path, {"newid": 200, key: value})
    after = node.writes[node.writes.index(clone) + 1]
    assert {"mp0", "net0", "tags", "cores", "digest"} <= after.params.keys()
    config = node.config(CATTLE)
    assert (config["tags"], config["cores"]) == ("ai;paddock", 3)
    assert "role=cattle agent=home_bee" in config["description"]


def test_protection_is_removed_in_a_request_of_its_own(node: Node) -> None:
    """Lifting protection and adding a volume in one call fails; it takes two."""
    up(node.agent())
    with pytest.raises(Protected):
        node.client().send("PUT", f"{LXC}/{PET}/config", {"protection": 0, "mp1": "local-lvm:1,mp=/x"})
    node.sent.clear()
    up(node.agent("ant", state={"pet": PET}))
    assert not any({"protection", "mp1"} <= sent.params.keys() for sent in node.writes)
    assert node.config(PET)["mp1"].startswith("local-lvm:vm-100-disk-2,mp=/var/lib/paddock/home_ant")


def test_a_state_volume_grows_while_no_container_has_it_mounted(node: Node) -> None:
    """Growing it under a running machine: the volume grows, the filesystem does not, the task says OK."""
    up(node.agent())
    running: list[Any] = []
    node.before("PUT", f"{LXC}/{PET}/resize", lambda: running.extend(node.running))
    agent = node.agent(state={"size": "16G"})
    plan = agent.plan_up(agent.observe())
    measured = [step.id for step in plan.steps if isinstance(step.action, PlaceAction | CheckStateSize)]
    assert measured[-1] == "state.check"
    up(agent)
    assert running == []
    assert node.running == [CATTLE]
    assert "size=16G" in node.config(PET)["mp0"]


def test_a_root_disk_is_never_an_existing_volume(node: Node) -> None:
    """``rootfs=`` an existing volume unpacks the template over its files without a word."""
    up(node.agent())
    cycle(node.agent(template="auto"))
    named = [sent.params["rootfs"] for sent in node.writes if "rootfs" in sent.params]
    assert named
    assert not any("disk" in value for value in named)


def test_destroy_refuses_a_pet(node: Node) -> None:
    """Deleting an owner whose volume a running borrower has mounted destroys its rootfs first, then fails."""
    up(node.agent())
    node.root("pct", "set", PET, "--protection", "0")
    node.sent.clear()
    for action in (Destroy(PET), Detach(PET)):
        with pytest.raises(Refused):
            perform(node, action)
    node.put(PET, mp0=None)
    with pytest.raises(Refused, match="has no mark that lets Paddock destroy it"):
        perform(node, Destroy(PET))
    assert not node.writes
    assert {"vm-100-disk-0", "vm-100-disk-1"} <= node.volumes


def test_destroy_refuses_a_machine_that_owns_more_than_its_root_disk(node: Node) -> None:
    """``delete=unusedN`` of an owned volume destroys it, and so does DELETE."""
    up(node.agent())
    node.root("pct", "stop", CATTLE)
    node.root("pct", "set", CATTLE, "-mp1", "local-lvm:1,mp=/own")
    node.sent.clear()
    for action in (Detach(CATTLE), Destroy(CATTLE)):
        with pytest.raises(Refused):
            perform(node, action)
    assert not node.writes
    node.root("pct", "set", CATTLE, "-delete", "mp0,mp1")
    with pytest.raises(Refused):
        perform(node, Detach(CATTLE))
    assert "vm-101-disk-1" in node.volumes


def test_the_network_card_is_always_sent_with_its_mac(node: Node) -> None:
    """PUT ``net0`` without ``hwaddr`` makes a new MAC each time."""
    up(node.agent())
    before = node.config(CATTLE)["net0"]
    up(node.agent(machine={"net": {"mtu": 1400}}))
    cycle(node.agent(template="auto"))
    cards = [sent.params["net0"] for sent in node.writes if "net0" in sent.params]
    assert len(cards) >= 4
    assert all("hwaddr=BC:24:11:" in card for card in cards)
    assert node.config(CATTLE)["net0"] == before  # so DHCP gives it the same address


@pytest.mark.parametrize("token", [WIDE, DEPLOYER])
def test_a_machine_that_someone_deletes_before_its_start_is_created_again(node: Node, token: str) -> None:
    """``start`` of a missing container: 200 and a failing task; 403 for a token with privileges on the pool only."""
    node.before("POST", "*/status/start", lambda: node.root("pct", "destroy", CATTLE))
    agent = node.agent(token=token)
    up(agent)
    assert "observing again" in str(agent.told)
    assert node.running == [CATTLE]


def test_paddock_deletes_volumes_only_through_their_containers(node: Node) -> None:
    """Storage DELETE says OK for a volume that does not exist, and removes one that a container still names."""
    with pytest.raises(ApiError, match=r"Datastore\.Allocate"):
        node.client().send("DELETE", f"/nodes/pve/storage/local-lvm/content/{STATE}")
    node.sent.clear()
    up(node.agent())
    down(node.agent())
    assert not [sent for sent in node.writes if "/storage/" in sent.path]


def test_every_container_is_created_unprivileged(node: Node) -> None:
    """Before Proxmox VE 9 a container is privileged without it, and then even nesting is refused to tokens."""
    up(node.agent())
    cycle(node.agent(template="auto"))
    creates = [sent for sent in node.writes if sent.path == LXC]
    assert len(creates) == 3  # pet, machine, builder
    assert all(sent.params["unprivileged"] == "1" for sent in creates)
    assert all(node.config(vmid)["unprivileged"] == 1 for vmid in node.vmids)


def test_numbers_in_responses_may_be_strings(node: Node) -> None:
    """Perl prints a number as text once it has been used as one."""

    def as_text(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: as_text(value) for key, value in data.items()}
        if isinstance(data, list):
            return [as_text(value) for value in data]
        return str(data) if isinstance(data, int | float) else data

    node.rewrite = as_text
    up(node.agent(template="auto"))
    node.sent.clear()
    assert "nothing to do" in up(node.agent(template="auto"))
    assert not node.writes
    down(node.agent(template="auto"))
    assert node.vmids == [PET, 102]
    assert node.config(102)["template"] == 1


def test_a_changed_state_backup_is_written_into_the_pet_while_the_machine_runs(node: Node) -> None:
    """Proxmox backs up a volume of the pet only with ``backup=1``."""
    up(node.agent())
    before = node.config(PET)["mp0"]
    assert "backup=1" in before
    writes = len(node.writes)
    up(node.agent(state={"backup": False}))
    assert [(sent.method, sent.path) for sent in node.writes[writes:]] == [("PUT", f"{LXC}/{PET}/config")] * 3
    assert node.config(PET)["protection"] == 1
    assert node.config(PET)["mp0"].replace("backup=0", "backup=1") == before
    assert node.running == [CATTLE]
    writes = len(node.writes)
    up(node.agent(state={"backup": False}))
    assert not node.writes[writes:]
    up(node.agent(state={"backup": True}))
    assert node.config(PET)["mp0"] == before
