"""Ways to keep a state without a pet, each tried, and why it ends."""

from __future__ import annotations

import pytest

from paddock.places.proxmox.client import TaskFailed
from paddock.places.proxmox.errors import ApiError, Protected, RootOnly
from paddock.run.verbs import cycle, up
from places.node import BASE, CATTLE, DEPLOYER, PET, ROOT, Node

LXC = "/nodes/pve/lxc"
OWN = "local-lvm:vm-200-disk-1"


@pytest.fixture
def single(node: Node) -> Node:
    """A node with one container that is machine and owner of its state in one, as people begin."""
    node.somebody(200, mp0="local-lvm:8,mp=/home/agent")
    return node


@pytest.mark.parametrize("token", [DEPLOYER, ROOT])
def test_a_bind_mount_is_not_for_tokens(node: Node, token: str) -> None:
    params = {"vmid": "200", "ostemplate": BASE, "rootfs": "local-lvm:1", "mp0": "/srv/agent,mp=/home/agent"}
    with pytest.raises(RootOnly, match="mount point type bind is only allowed for root@pam"):
        node.client(token).send("POST", LXC, params)
    node.somebody(200)
    with pytest.raises(RootOnly, match="mount point type bind is only allowed for root@pam"):
        node.client(token).send("PUT", f"{LXC}/200/config", {"mp0": "/srv/agent,mp=/home/agent"})
    node.root("pct", "set", 200, "-mp0", "/srv/agent,mp=/home/agent")  # for root it is


def test_protection_alone_keeps_the_machine_too_and_goes_with_it(single: Node) -> None:
    single.root("pct", "set", 200, "--protection", "1")
    with pytest.raises(Protected):
        single.client().send("DELETE", f"{LXC}/200")
    # Neither is the state really safe from other calls...
    single.client().task("PUT", f"{LXC}/200/resize", {"disk": "mp0", "size": "9G"})
    # ...nor is there a way to make the machine anew but to lift it, and then the state goes as well.
    single.root("pct", "set", 200, "--protection", "0")
    single.client().task("DELETE", f"{LXC}/200")
    assert single.volumes == set()


@pytest.mark.parametrize("flag", [0, 1])
def test_the_flag_for_unreferenced_disks_does_not_keep_referenced_ones(single: Node, flag: int) -> None:
    single.client().task("DELETE", f"{LXC}/200", {"destroy-unreferenced-disks": flag})
    assert single.volumes == set()


def test_the_flag_for_unreferenced_disks_takes_what_no_configuration_names(single: Node) -> None:
    single.put(200, mp0=None)
    single.client().task("DELETE", f"{LXC}/200", {"destroy-unreferenced-disks": 1})
    assert single.volumes == set()


def test_paddock_never_sends_that_flag(node: Node) -> None:
    up(node.agent())
    cycle(node.agent())
    deletes = [sent for sent in node.writes if sent.method == "DELETE"]
    assert [sent.params for sent in deletes] == [{}]


def test_no_call_renames_a_volume_and_no_name_is_free(single: Node) -> None:
    content = "/nodes/pve/storage/local-lvm/content"
    with pytest.raises(ApiError, match="illegal name 'agent-home' - should be 'vm-999-\\*'"):
        single.client().send("POST", content, {"vmid": 999, "filename": "agent-home", "size": "8G"})
    for method, path in (("PUT", f"{content}/{OWN}/rename"), ("POST", f"{content}/{OWN}/rename")):
        with pytest.raises(ApiError) as caught:
            single.client().send(method, path, {"name": "vm-999-home"})
        assert caught.value.status == 501
    # A volume that is allocated under a name of one's own has no filesystem, which only a container's can get.
    single.client().send("POST", content, {"vmid": 999, "filename": "vm-999-home", "size": "8G"})
    params = {"vmid": "201", "ostemplate": BASE, "rootfs": "local-lvm:1", "mp0": "local-lvm:vm-999-home,mp=/home/agent"}
    with pytest.raises(TaskFailed, match="unable to create CT 201 - command 'mount"):
        single.client().task("POST", LXC, params)


def test_reassigning_in_place_only_renumbers(single: Node) -> None:
    move = f"{LXC}/200/move_volume"
    single.client().task("POST", move, {"volume": "mp0", "target-vmid": 200, "target-volume": "mp1"})
    assert single.config(200)["mp1"].startswith("local-lvm:vm-200-disk-2,")  # another name, the same owner
    single.client().task("DELETE", f"{LXC}/200")
    assert single.volumes == set()


def test_reassigning_into_a_protected_container_loses_the_volume_from_both(single: Node) -> None:
    single.somebody(999, protection=1)
    with pytest.raises(TaskFailed, match="can't update CT 999 drive 'mp0' - protection mode enabled"):
        single.client().task("POST", f"{LXC}/200/move_volume", {"volume": "mp0", "target-vmid": 999})
    assert "mp0" not in single.config(200)
    assert "mp0" not in single.config(999)
    assert "vm-999-disk-1" in single.volumes


def test_hotplug_gets_a_volume_in_but_not_out_again(node: Node) -> None:
    node.somebody(999, mp0="local-lvm:8,mp=/home/agent")
    node.somebody(200)
    node.root("pct", "start", 200)
    client = node.client()
    client.send("PUT", f"{LXC}/200/config", {"mp0": "local-lvm:vm-999-disk-1,mp=/home/agent"})
    assert "mp0" in node.config(200)
    client.send("PUT", f"{LXC}/200/config", {"delete": "mp0"})
    waiting = [entry["key"] for entry in client.get(f"{LXC}/200/pending") if "delete" in entry]
    assert waiting == ["mp0"]
    assert "mp0" in node.config(200)  # still mounted: a machine has to stop to let go of the state


def test_the_volume_is_there_from_the_first_start(node: Node) -> None:
    """So nothing is plugged in, and nothing stopped to attach it."""
    up(node.agent())
    calls = [sent.path.rpartition("/")[2] for sent in node.writes]
    assert calls == ["lxc", "lxc", "start", "config"]  # the last puts the host key on record
    assert node.writes[1].params["mp0"].startswith(f"local-lvm:vm-{PET}-disk-1")
    assert node.running == [CATTLE]
