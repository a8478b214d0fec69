"""Pools: what tokens with rights on two pools only may do, and how root manages pools."""

from __future__ import annotations

import shlex
import threading
from pathlib import Path

import pytest

from pvebox.cluster.tasks import Task
from pvebox.console.console import Console
from pvebox.console.shell import CommandResult
from pvebox.runtime.contract import Archive, ContainerSpec, Unpacked
from sandbox.inprocess import TEMPLATE, Api, Json

CARD = "name=eth0,bridge=intra01"
DAILY, SETUP = "pooled@pve!daily", "pooled@pve!setup"
LXC = "/nodes/pve/lxc"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def done(api: Api, method: str, path: str, token: str, /, **params: Json) -> Json:
    """Send a request that must succeed, wait for its task, and return the data of the answer."""
    answer = api.ask(method, path, token, **params)
    assert answer.status_code == 200, answer.headers["x-pvebox-reason"]
    api.settle()
    data = answer.json()["data"]
    if str(data).startswith("UPID:"):
        assert api.cluster.tasks.wait(data, 10).exitstatus == "OK"
    return data


def make(api: Api, vmid: int, token: str, pool: str, /, **params: Json) -> None:
    made = {"ostemplate": TEMPLATE, "rootfs": "local-lvm:2", "features": "nesting=1", "unprivileged": 1}
    done(api, "POST", LXC, token, vmid=vmid, pool=pool, **{**made, **params})


def make_outsider(api: Api, vmid: int) -> None:
    assert api.create(vmid).exitstatus == "OK"


def root(api: Api, line: str) -> CommandResult:
    return Console(api.cluster).run(shlex.split(line))


def members(api: Api, pool: str) -> list[int]:
    [found] = api.ask("GET", "/pools", DAILY, poolid=pool).json()["data"]
    return [member["vmid"] for member in found["members"]]


def test_a_vnet_is_used_and_listed_with_a_privilege_in_its_zone(api: Api) -> None:
    """The error is Proxmox's own."""
    api.cluster.vnets["intra01"] = "intra"
    made = {"ostemplate": TEMPLATE, "rootfs": "local-lvm:2", "features": "nesting=1", "net0": CARD}
    acl = "pveum acl modify {} --users pooled@pve --tokens 'pooled@pve!daily' --roles PoolNet"
    assert root(api, acl.format("/sdn/zones/localnetwork/intra01")).code == 0
    answer = api.ask("POST", LXC, DAILY, vmid=301, pool="paddock", **made)
    reason = "Permission check failed (/sdn/zones/intra/intra01, SDN.Use)"
    assert (answer.status_code, answer.headers["x-pvebox-reason"]) == (403, reason)
    assert api.ask("GET", "/cluster/sdn/vnets", DAILY).json()["data"] == []
    assert root(api, acl.format("/sdn/zones/intra/intra01")).code == 0
    listed = api.ask("GET", "/cluster/sdn/vnets", DAILY).json()["data"]
    assert [(row["vnet"], row["zone"]) for row in listed] == [("intra01", "intra")]
    done(api, "POST", LXC, DAILY, vmid=301, pool="paddock", **made)


def test_tokens_with_rights_on_two_pools_make_a_pet_and_a_machine(api: Api) -> None:
    make(api, 300, SETUP, "paddock-state", mp0="local-lvm:1,mp=/state", protection=1)
    make(api, 301, DAILY, "paddock", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    done(api, "POST", f"{LXC}/301/template", DAILY)
    done(api, "POST", f"{LXC}/301/clone", DAILY, newid=302, pool="paddock")
    mount = "local-lvm:vm-300-disk-1,mp=/state"
    done(api, "PUT", f"{LXC}/302/config", DAILY, mp0=mount, tags="paddock", onboot=1)
    done(api, "POST", f"{LXC}/302/status/start", DAILY)
    assert (members(api, "paddock"), members(api, "paddock-state")) == ([301, 302], [300])
    done(api, "POST", f"{LXC}/302/status/stop", DAILY)
    done(api, "DELETE", f"{LXC}/302", DAILY)
    assert (members(api, "paddock"), members(api, "paddock-state")) == ([301], [300])


def with_a_memory(api: Api) -> None:
    """A protected pet whose volume a stopped machine mounts, with a snapshot of the pet."""
    make(api, 300, SETUP, "paddock-state", mp0="local-lvm:1,mp=/state", protection=1)
    make(api, 301, DAILY, "paddock", mp0="local-lvm:vm-300-disk-1,mp=/state")


def volumes(api: Api) -> set[str]:
    return {volume.ref.name for volume in api.cluster.runtime.volumes.on("pve", "local-lvm")}


def test_whoever_may_mount_a_volume_may_reassign_it_out_of_a_protected_container(api: Api) -> None:
    """On Proxmox VE 9.2.11 `protection` is not looked at."""
    with_a_memory(api)
    make(api, 302, DAILY, "paddock")
    order = {"volume": "mp0", "target-vmid": 302, "target-volume": "mp1"}
    done(api, "POST", f"{LXC}/300/move_volume", DAILY, **order)
    done(api, "DELETE", f"{LXC}/302", DAILY)
    assert volumes(api) == {"vm-300-disk-0", "vm-301-disk-0"}


def test_whoever_may_mount_a_volume_may_move_it_away_with_all_its_snapshots(api: Api) -> None:
    """On Proxmox VE 9.2.11 only the snapshots of the borrower's own configuration are looked at."""
    with_a_memory(api)
    done(api, "POST", f"{LXC}/300/snapshot", "root@pam!sandbox", snapname="before")
    assert "snap_vm-300-disk-1_before" in volumes(api)
    order = {"volume": "mp0", "storage": "local-lvm", "delete": 1}
    done(api, "POST", f"{LXC}/301/move_volume", DAILY, **order)
    assert not [name for name in volumes(api) if "vm-300-disk-1" in name]
    assert api.data("GET", f"{LXC}/300/config")["mp0"].startswith("local-lvm:vm-300-disk-1")


@pytest.mark.parametrize("running", [False, True])
def test_whoever_may_mount_a_volume_may_unpack_a_tree_onto_it(api: Api, *, running: bool) -> None:
    """On Proxmox VE 9.2.11 this succeeds while a container runs on the volume too: they share one superblock."""
    with_a_memory(api)
    if running:
        done(api, "POST", f"{LXC}/301/status/start", DAILY)
    make(api, 302, DAILY, "paddock", rootfs="local-lvm:vm-300-disk-1")
    done(api, "DELETE", f"{LXC}/302", DAILY)
    assert "vm-300-disk-1" in volumes(api)


def test_a_container_joins_its_pool_when_its_create_task_ends(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacking, go_on = threading.Event(), threading.Event()

    def slow(spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        unpacking.set()
        go_on.wait(5)
        return Unpacked(systemd=252)

    monkeypatch.setattr(api.cluster.runtime.containers, "populate", slow)
    given = {"ostemplate": TEMPLATE, "rootfs": "local-lvm:2", "pool": "paddock"}
    upid = api.ask("POST", LXC, DAILY, vmid=300, **given).json()["data"]
    assert unpacking.wait(5)
    assert members(api, "paddock") == []
    refused = api.ask("GET", f"{LXC}/300/config", DAILY)
    assert (refused.status_code, refused.headers["x-pvebox-reason"]) == (
        403,
        "Permission check failed (/vms/300, VM.Audit)",
    )
    assert api.ask("GET", LXC, DAILY).json()["data"] == []
    assert api.ask("GET", f"/nodes/pve/tasks/{upid}/status", DAILY).json()["data"]["status"] == "running"
    go_on.set()
    api.settle()
    assert members(api, "paddock") == [300]
    assert api.ask("GET", f"{LXC}/300/config", DAILY).status_code == 200


def test_lists_have_only_what_a_token_may_see(api: Api) -> None:
    make_outsider(api, 105)
    make(api, 300, SETUP, "paddock-state")
    api.cluster.statistics.gather()
    seen = api.ask("GET", "/cluster/resources", DAILY).json()["data"]
    assert sorted(entry["id"] for entry in seen) == [
        "/pool/paddock",
        "/pool/paddock-state",
        "lxc/300",
        "node/pve",
        "storage/pve/local",
        "storage/pve/local-lvm",
    ]
    assert [entry["vmid"] for entry in api.ask("GET", LXC, DAILY).json()["data"]] == [300]
    assert api.ask("GET", "/cluster/nextid", DAILY, vmid=105).status_code == 400


def test_root_puts_a_container_into_a_pool(api: Api) -> None:
    make_outsider(api, 105)
    make_outsider(api, 106)
    assert root(api, "pveum pool modify paddock --vms 105,106").code == 0
    assert members(api, "paddock") == [105, 106]
    assert root(api, "pveum pool modify paddock --vms 105 --delete 1").code == 0
    assert members(api, "paddock") == [106]


def test_a_container_is_in_one_pool_only(api: Api) -> None:
    make_outsider(api, 105)
    make_outsider(api, 106)
    assert root(api, "pveum pool modify paddock --vms 105").code == 0
    refused = root(api, "pveum pool modify paddock-state --vms 106,105")
    assert (refused.code, refused.err) == (
        255,
        "update pools failed: VM 105 belongs already to pool 'paddock' and 'allow-move' is not set\n",
    )
    assert members(api, "paddock-state") == [], "a change that fails half-way must change nothing"
    assert root(api, "pveum pool modify paddock-state --vms 106,105 --allow-move 1").code == 0
    assert (members(api, "paddock"), members(api, "paddock-state")) == ([], [105, 106])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pveum pool add paddock", "create pool failed: pool 'paddock' already exists\n"),
        ("pveum pool modify nosuch --vms 105", "update pools failed: pool 'nosuch' does not exist\n"),
        ("pveum pool modify paddock --vms 105 --delete 1", "update pools failed: VM 105 is not a pool member\n"),
        ("pveum role add PoolPet --privs VM.Audit", "create role failed: role 'PoolPet' already exists\n"),
        ("pveum role modify NoSuch --privs VM.Audit", "update role failed: role 'NoSuch' does not exist\n"),
        ("pveum user add pooled@pve", "create user failed: user 'pooled@pve' already exists\n"),
        (
            "pveum acl modify /vms --users nobody@pve --roles PoolPet",
            "ACL update failed: user 'nobody@pve' does not exist\n",
        ),
        (
            "pveum acl modify /vms --tokens pooled@pve!none --roles PoolPet",
            "ACL update failed: no such token 'none' for user 'pooled@pve'\n",
        ),
        (
            "pveum acl modify /pools/paddock --users pooled@pve --roles PoolPet",
            "400 Parameter verification failed.\npath: invalid ACL path '/pools/paddock'\n",
        ),
    ],
)
def test_a_console_command_that_proxmox_refuses_is_refused(api: Api, line: str, words: str) -> None:
    said = root(api, line)
    assert (said.code, said.err) == (255, words)


def test_the_commands_that_make_a_pool_can_be_pasted_twice(api: Api) -> None:
    for _ in range(2):
        for line in (
            "pveum pool add lab || true",
            "pveum role add Lab --privs 'VM.Audit Pool.Audit' || pveum role modify Lab --privs 'VM.Audit Pool.Audit'",
            "pveum acl modify /pool/lab --users pooled@pve --tokens 'pooled@pve!daily' --roles Lab",
        ):
            assert root(api, line).code == 0
    assert root(api, "pveum pool list").out == "lab\npaddock\npaddock-state\n"
    assert api.cluster.access.privileges(DAILY, "/pool/lab") == {"VM.Audit": 1, "Pool.Audit": 1}
    assert len([entry for entry in api.cluster.access.acl if entry.path == "/pool/lab"]) == 2


def test_only_an_empty_pool_is_deleted_and_its_acls_with_it(api: Api) -> None:
    make_outsider(api, 105)
    assert root(api, "pveum pool modify paddock --vms 105").code == 0
    refused = root(api, "pveum pool delete paddock")
    assert refused.err == "delete pool failed: pool 'paddock' is not empty (contains VM 105)\n"
    done(api, "DELETE", f"{LXC}/105", DAILY)
    assert root(api, "pveum pool delete paddock").code == 0
    assert {entry.path for entry in api.cluster.access.acl} & {"/pool/paddock", "/pool/paddock-state"} == {
        "/pool/paddock-state"
    }
