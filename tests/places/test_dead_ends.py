"""Ways to keep a state without a pet, and why each of them fails."""

from __future__ import annotations

import pytest

from paddock.core.converge import cycle, up
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import ApiError, Protected, RootOnly
from places.node import BASE, CATTLE, PET, ROOT, WIDE, Node

LXC = "/nodes/pve/lxc"
OWN = "local-lvm:vm-200-disk-1"


@pytest.fixture
def single(node: Node) -> Node:
    """A node with one container that is the machine and owns the state volume too."""
    node.somebody(200, mp0="local-lvm:8,mp=/home/agent")
    return node


@pytest.mark.parametrize("token", [WIDE, ROOT])
def test_a_token_cannot_add_a_bind_mount(node: Node, token: str) -> None:
    params = {"vmid": "200", "ostemplate": BASE, "rootfs": "local-lvm:1", "mp0": "/srv/agent,mp=/home/agent"}
    with pytest.raises(RootOnly, match="mount point type bind is only allowed for root@pam"):
        node.client(token).send("POST", LXC, params)
    node.somebody(200)
    with pytest.raises(RootOnly, match="mount point type bind is only allowed for root@pam"):
        node.client(token).send("PUT", f"{LXC}/200/config", {"mp0": "/srv/agent,mp=/home/agent"})
    node.root("pct", "set", 200, "-mp0", "/srv/agent,mp=/home/agent")  # root can


def test_protection_does_not_separate_the_state_from_the_machine(single: Node) -> None:
    single.root("pct", "set", 200, "--protection", "1")
    with pytest.raises(Protected):
        single.client().send("DELETE", f"{LXC}/200")
    # Other requests can still change the state.
    single.client().task("PUT", f"{LXC}/200/resize", {"disk": "mp0", "size": "9G"})
    # The machine can be recreated only without protection, and then the state is deleted with it.
    single.root("pct", "set", 200, "--protection", "0")
    single.client().task("DELETE", f"{LXC}/200")
    assert single.volumes == set()


@pytest.mark.parametrize("flag", [0, 1])
def test_destroy_deletes_referenced_disks_with_or_without_the_flag(single: Node, flag: int) -> None:
    single.client().task("DELETE", f"{LXC}/200", {"destroy-unreferenced-disks": flag})
    assert single.volumes == set()


def test_the_flag_deletes_disks_that_no_configuration_names(single: Node) -> None:
    single.put(200, mp0=None)
    single.client().task("DELETE", f"{LXC}/200", {"destroy-unreferenced-disks": 1})
    assert single.volumes == set()


def test_paddock_never_sends_destroy_unreferenced_disks(node: Node) -> None:
    up(node.agent())
    cycle(node.agent())
    deletes = [sent for sent in node.writes if sent.method == "DELETE"]
    assert [sent.params for sent in deletes] == [{}]


def test_no_request_renames_a_volume(single: Node) -> None:
    content = "/nodes/pve/storage/local-lvm/content"
    with pytest.raises(ApiError, match="illegal name 'agent-home' - should be 'vm-999-\\*'"):
        single.client().send("POST", content, {"vmid": 999, "filename": "agent-home", "size": "8G"})
    # A volume's name may contain a slash, so this PUT is the one that changes notes.
    for method, status in (("PUT", 400), ("POST", 501)):
        with pytest.raises(ApiError) as caught:
            single.client().send(method, f"{content}/{OWN}/rename", {"name": "vm-999-home"})
        assert caught.value.status == status
    # A volume with a chosen name has no filesystem: only volumes of containers get one.
    single.client().send("POST", content, {"vmid": 999, "filename": "vm-999-home", "size": "8G"})
    params = {"vmid": "201", "ostemplate": BASE, "rootfs": "local-lvm:1", "mp0": "local-lvm:vm-999-home,mp=/home/agent"}
    with pytest.raises(TaskFailed, match="unable to create CT 201 - command 'mount"):
        single.client().task("POST", LXC, params)


def test_moving_a_volume_within_a_container_only_changes_its_key(single: Node) -> None:
    move = f"{LXC}/200/move_volume"
    single.client().task("POST", move, {"volume": "mp0", "target-vmid": 200, "target-volume": "mp1"})
    assert single.config(200)["mp1"].startswith("local-lvm:vm-200-disk-2,")  # another name, the same owner
    single.client().task("DELETE", f"{LXC}/200")
    assert single.volumes == set()


def test_moving_a_volume_to_a_protected_container_removes_it_from_both(single: Node) -> None:
    single.somebody(999, protection=1)
    with pytest.raises(TaskFailed, match="can't update CT 999 drive 'mp0' - protection mode enabled"):
        single.client().task("POST", f"{LXC}/200/move_volume", {"volume": "mp0", "target-vmid": 999})
    assert "mp0" not in single.config(200)
    assert "mp0" not in single.config(999)
    assert "vm-999-disk-1" in single.volumes


def test_a_running_machine_cannot_release_a_mounted_volume(node: Node) -> None:
    node.somebody(999, mp0="local-lvm:8,mp=/home/agent")
    node.somebody(200)
    node.root("pct", "start", 200)
    client = node.client()
    client.send("PUT", f"{LXC}/200/config", {"mp0": "local-lvm:vm-999-disk-1,mp=/home/agent"})
    assert "mp0" in node.config(200)
    client.send("PUT", f"{LXC}/200/config", {"delete": "mp0"})
    waiting = [entry["key"] for entry in client.get(f"{LXC}/200/pending") if "delete" in entry]
    assert waiting == ["mp0"]
    assert "mp0" in node.config(200)  # still mounted: a machine must stop to release the state


def test_the_state_is_mounted_from_the_first_start(node: Node) -> None:
    """Nothing is attached to a running machine, and nothing is stopped to attach it."""
    up(node.agent())
    calls = [sent.path.rpartition("/")[2] for sent in node.writes]
    assert calls == ["lxc", "config", "lxc", "config", "start", "config"]  # the last request records the host key
    assert node.writes[3].params["mp0"].startswith(f"local-lvm:vm-{PET}-disk-1")
    assert node.running == [CATTLE]
