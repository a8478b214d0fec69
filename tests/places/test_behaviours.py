"""Thirty behaviours of Proxmox's API, and how Paddock handles each.

The numbered docstring describes Proxmox's behaviour, the name of the test describes Paddock's.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from paddock.base.errors import NeedsPerson, PaddockError, Refused
from paddock.core.converge import cycle, down, up
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import (
    AnswerLost,
    ApiError,
    BadParameters,
    Exists,
    Forbidden,
    Locked,
    Modified,
    NoContainer,
    NotRunning,
    Protected,
    RootOnly,
    Running,
    Unauthorized,
)
from paddock.places.proxmox.node import observe
from places.node import BASE, CATTLE, DEPLOYER, MACHINES, PET, ROOT, WIDE, Node, Sent, play_ssh

STATE = "local-lvm:vm-100-disk-1"
LXC = "/nodes/pve/lxc"


def create(vmid: int, **params: str | int) -> dict[str, str | int]:
    """Return the parameters of a create request that succeeds."""
    return {"vmid": vmid, "ostemplate": BASE, "rootfs": "local-lvm:1", "features": "nesting=1", **params}


def whole_life(node: Node) -> list[Sent]:
    """Return every request to create, change, grow and recreate an agent, from the base and from a template."""
    up(node.agent())
    up(node.agent(machine={"cores": 3, "disk": "9G", "dns": ["9.9.9.9"]}, state={"size": "9G"}))
    cycle(node.agent(template="auto", state={"size": "9G"}))
    up(node.agent("ant", template="auto", state={"pet": PET}))
    down(node.agent("ant", state={"pet": PET}))
    down(node.agent())
    return node.sent


def test_a_rejected_token_is_reported_without_a_retry(node: Node) -> None:
    """1. any, no/bad token -> 3 s, `401 No ticket` / `401 Authentication failed!`, empty body"""
    with pytest.raises(Unauthorized, match="401 to GET /version: Authentication failed!") as caught:
        node.client(secret="00000000-0000-0000-0000-000000000000").get("/version")
    assert "check the token" in str(caught.value.hint)
    assert len(node.sent) == 1  # each further request would take another 3 s
    node.fault("answer", "401:No ticket", path="/nodes/pve/tasks")
    with pytest.raises(Unauthorized, match="No ticket"):
        up(node.agent())
    assert not node.writes


def test_root_only_features_are_not_reported_as_a_missing_privilege(node: Node) -> None:
    """2. root@pam!t is not root: POST lxc features=nesting=1,keyctl=1 -> 403
    `…(changing feature flags (except nesting) is only allowed for root@pam)`"""
    agent = node.agent(token=ROOT, machine={"features": ["nesting", "keyctl"]}, patient=False)
    with pytest.raises(NeedsPerson, match=rf"pct set {CATTLE} -features keyctl=1,nesting=1"):
        up(agent)
    assert "the token may not set the features: Permission check failed (changing feature flags" in str(agent.told)
    assert [sent.params["features"] for sent in node.writes if "keyctl" in str(sent.params)] == ["keyctl=1,nesting=1"]
    assert node.running == [CATTLE]  # the token's part of the work is done


def test_paddock_sends_only_nesting_and_keeps_features_of_root(node: Node) -> None:
    """3. features=nesting=1 unprivileged -> 200 UPID; `nesting=1,keyctl=0` -> 403"""
    up(node.agent())
    assert {sent.params["features"] for sent in node.writes if "features" in sent.params} == {"nesting=1"}
    with pytest.raises(RootOnly):
        node.client().send("PUT", f"{LXC}/{CATTLE}/config", {"features": "nesting=1,keyctl=0"})
    node.root("pct", "stop", CATTLE)
    node.root("pct", "set", CATTLE, "--features", "keyctl=1,nesting=1")
    node.sent.clear()
    up(node.agent())
    assert not any("features" in sent.params for sent in node.writes)
    node.root("pct", "stop", CATTLE)
    node.root("pct", "set", CATTLE, "--features", "keyctl=1")
    up(node.agent())
    assert set(node.config(CATTLE)["features"].split(",")) == {"keyctl=1", "nesting=1"}


def test_paddock_does_not_send_bind_mounts_of_root(node: Node) -> None:
    """4. mp0=/srv,mp=/x -> 403 `…(mount point type bind is only allowed for root@pam)`"""
    with pytest.raises(RootOnly, match="mount point type bind"):
        node.client(ROOT).send("POST", LXC, create(200, mp0="/srv,mp=/x"))
    up(node.agent())
    node.root("pct", "set", CATTLE, "-mp1", "/srv,mp=/data")
    up(node.agent(machine={"cores": 3}))
    assert node.writes[-1].params.keys() == {"cores", "digest"}
    assert node.config(CATTLE)["mp1"] == "/srv,mp=/data"
    down(node.agent())  # a directory of the node has no owner and is kept
    assert node.vmids == [PET]


def test_paddock_sends_every_volume_with_its_path(node: Node) -> None:
    """5. mp0=local-lvm:8 (no mp=) -> 400 errors.mp0 `invalid format - format error\\nmp0.mp: property is missing …`"""
    with pytest.raises(BadParameters, match=r"mp0\.mp: property is missing") as caught:
        node.client().send("POST", LXC, create(200, mp0="local-lvm:8"))
    assert caught.value.errors.keys() == {"mp0"}
    node.sent.clear()
    values = [sent.params["mp0"] for sent in whole_life(node) if "mp0" in sent.params]
    assert values
    assert all("mp=/" in value for value in values)


def test_every_wrong_parameter_is_reported_after_a_missing_privilege(node: Node) -> None:
    """6. unknown parameter -> 400 errors.<key>; missing privilege wins over bad parameter (403 first)"""
    with pytest.raises(BadParameters, match="bogus: property is not defined in schema") as caught:
        node.client().send("POST", LXC, create(200, bogus=1, memory=1))
    assert caught.value.errors.keys() == {"bogus", "memory"}
    node.root("pveum", "user", "add", "guest@pve")
    node.root("pveum", "user", "token", "add", "guest@pve", "look", "--privsep", "0")
    with pytest.raises(Forbidden, match=r"\(/vms/200, VM\.Allocate\)") as refused:
        node.client("guest@pve!look").send("DELETE", f"{LXC}/200", {"bogus": 1})
    assert "paddock doctor" in str(refused.value.hint)


def test_up_chooses_another_number_when_one_is_taken_meanwhile(node: Node) -> None:
    """7. POST lxc vmid taken -> 500 `CT 105 already exists on node 'pve1'`"""
    node.before("POST", LXC, lambda: node.somebody(PET, hostname="quicker"))
    agent = node.agent()
    up(agent)
    assert "already exists" in str(agent.told)
    assert node.config(PET)["hostname"] == "quicker"
    assert node.vmids == [100, 101, 102]
    with pytest.raises(Exists):
        node.client().send("POST", LXC, create(100))
    with pytest.raises(Refused, match=r"machine\.vmid: 100 is taken"):
        up(node.agent("ant", machine={"vmid": 100}))


def test_up_waits_for_a_running_create_and_repeats_a_failed_one(node: Node) -> None:
    """8. POST lxc ok -> UPID; config visible at once with lock create; failure removes config and new volumes,
    exitstatus `unable to create CT 105 - …`"""
    node.before("POST", LXC, lambda: node.world.full.add("local-lvm"))
    with pytest.raises(TaskFailed, match=f"unable to create CT {PET} - .*reached threshold"):
        up(node.agent())
    assert (node.vmids, node.volumes) == ([], set())
    node.world.full.clear()
    go = node.hold_creates()
    node.fault("lose", method="POST", path=LXC)  # the create continues, its response is lost
    run = threading.Thread(target=up, args=(agent := node.agent(),))
    run.start()
    while "busy with vzcreate 100" not in str(agent.told):
        assert run.is_alive()
        time.sleep(0.002)
    assert node.config(PET) == {"lock": "create"}
    go.set()
    run.join()
    assert node.vmids == [PET, CATTLE]


def test_a_failed_start_is_an_error_of_its_own_step(node: Node) -> None:
    """9. start=1 -> separate vzstart task, not awaited"""
    node.fault("fail-task", "startup for container '101' failed", path="*/status/start")
    node.before("POST", "*/status/start", lambda: node.machines.stop(CATTLE))
    with pytest.raises(TaskFailed, match="vzstart failed: startup for container '101' failed"):
        up(node.agent())
    assert not any("start" in sent.params for sent in node.writes)
    up(node.agent())
    assert node.running == [CATTLE]


def test_root_disks_are_requested_by_storage_and_size(node: Node) -> None:
    """10. rootfs=8 by token -> 500 `Only root can pass arbitrary filesystem paths. at …`;
    rootfs missing with mp0 -> 500 `mount points configured, but 'rootfs' not set - aborting`"""
    with pytest.raises(ApiError, match="Only root can pass arbitrary filesystem paths"):
        node.client().send("POST", LXC, create(200, rootfs="8"))
    without = {key: value for key, value in create(200, mp0="local-lvm:1,mp=/x").items() if key != "rootfs"}
    with pytest.raises(ApiError, match="'rootfs' not set"):
        node.client().send("POST", LXC, without)
    node.sent.clear()
    creates = [sent.params["rootfs"] for sent in whole_life(node) if str(sent) == f"POST {LXC}"]
    assert len(creates) == 3  # pet, machine, builder
    assert all(re.fullmatch(r"local-lvm:\d+", value) for value in creates)
    # A PUT of rootfs would orphan the disk, or name a volume that does not exist.
    assert not any(
        "rootfs" in sent.params for sent in node.writes if sent.method == "PUT" and "size" not in sent.params
    )


def test_a_missing_privilege_on_the_pet_is_named_before_create(node: Node) -> None:
    """11. mp0=foreign volume at create, without VM.Config.Disk on /vms/999 -> 403 `(/vms/999, VM.Config.Disk)`;
    with it (+Datastore.Audit, AllocateSpace) -> ok, stored without size"""
    narrow = ("pveum", "acl", "modify", f"/vms/{PET}", "--roles", "NoAccess", "--tokens", DEPLOYER)
    node.before("POST", LXC, lambda: node.root(*narrow), nth=2)
    with pytest.raises(Refused, match=rf"may not read container {PET} in pool paddock-state"):
        up(node.agent())
    assert "mp0" not in node.config(CATTLE)
    node.root("pveum", "acl", "delete", f"/vms/{PET}", "--roles", "NoAccess", "--tokens", DEPLOYER)
    up(node.agent())
    assert node.config(CATTLE)["mp0"].startswith(f"{STATE},mp=/var/lib/paddock/bee")
    assert "nothing to do" in up(node.agent())


def test_up_never_replaces_a_missing_state_volume(node: Node) -> None:
    """12. create naming a missing volume -> task error `… no such logical volume pve/…`;
    PUT on stopped CT -> 200, start fails"""
    up(node.agent())
    down(node.agent())
    node.somebody_asks("DELETE", f"/nodes/pve/storage/local-lvm/content/{STATE}")
    with pytest.raises(TaskFailed, match="no such logical volume pve/vm-100-disk-1"):
        up(node.agent())
    assert node.running == []
    with pytest.raises(TaskFailed, match="no such logical volume pve/vm-100-disk-1"):
        up(node.agent())
    assert "vm-100-disk-1" not in node.volumes


def test_up_refuses_to_attach_the_state_to_a_running_machine(node: Node) -> None:
    """13. PUT mp0 on running CT -> live mount, not pending; second PUT of same key -> pending"""
    up(node.agent())
    node.put(CATTLE, mp0=None)
    node.sent.clear()
    with pytest.raises(Refused, match="does not have the state volume") as caught:
        up(node.agent())
    assert not node.writes
    assert "paddock cycle" in str(caught.value.hint)
    cycle(node.agent())
    assert node.config(CATTLE)["mp0"].startswith(STATE)


def test_down_detaches_the_state_from_a_stopped_machine_without_unused_entries(node: Node) -> None:
    """14. PUT delete=mp0 running -> pending delete until stop; stopped -> unusedN even if foreign"""
    up(node.agent())
    node.sent.clear()
    down(node.agent())
    told = [(str(sent).removeprefix("POST ").rpartition("/")[2], sent.params.get("delete")) for sent in node.writes]
    assert told == [
        ("config", None),  # the claim
        ("shutdown", None),
        ("config", "mp0"),
        ("config", "unused0"),
        ("config", None),  # the claim begins again
        (str(CATTLE), None),
    ]
    # A detach that was requested while the machine ran happens when it stops.
    up(node.agent())
    node.somebody_asks("PUT", f"{LXC}/{CATTLE}/config", delete="mp0")
    down(node.agent())
    assert node.vmids == [PET]
    assert "vm-100-disk-1" in node.volumes


def test_down_refuses_a_machine_that_owns_an_unused_volume(node: Node) -> None:
    """15. delete=unused0 foreign -> key gone, volume stays; own -> volume gone"""
    up(node.agent())
    node.somebody_asks("PUT", f"{LXC}/{CATTLE}/config", mp1="local-lvm:1,mp=/extra")
    node.somebody_asks("POST", f"{LXC}/{CATTLE}/status/stop")
    node.somebody_asks("PUT", f"{LXC}/{CATTLE}/config", delete="mp1")
    assert node.config(CATTLE)["unused0"] == "local-lvm:vm-101-disk-1"
    node.sent.clear()
    with pytest.raises(Refused, match="owns local-lvm:vm-101-disk-1"):
        down(node.agent())
    assert not node.writes
    node.somebody_asks("PUT", f"{LXC}/{CATTLE}/config", delete="unused0")  # a person deletes the volume
    down(node.agent())
    assert node.volumes == {"vm-100-disk-0", "vm-100-disk-1"}


def test_down_keeps_the_state_and_the_privileges_of_the_token(node: Node) -> None:
    """16. DELETE CT -> own volumes gone, foreign kept, ACLs and pool entry of the VMID gone"""
    up(node.agent())
    for vmid in (PET, CATTLE):
        node.root("pveum", "acl", "modify", f"/vms/{vmid}", "--roles", "PaddockGuests", "--users", "paddock@pve")
    down(node.agent())
    assert node.volumes == {"vm-100-disk-0", "vm-100-disk-1"}
    assert {entry.path for entry in node.world.access.acl if entry.path.startswith("/vms/")} == {f"/vms/{PET}"}
    up(node.agent())  # rights on /vms, not on one number, outlive the machine
    assert node.config(CATTLE)["mp0"].startswith(STATE)


def test_down_stops_the_machine_before_destroying_it(node: Node) -> None:
    """17. DELETE running without force -> 500 `unable to destroy CT 105 - container is running`"""
    up(node.agent())
    node.before("DELETE", f"{LXC}/{CATTLE}", lambda: node.root("pct", "start", CATTLE))
    agent = node.agent()
    down(agent)  # someone starts the machine at the last moment: the same run observes again
    assert "container is running; observing again" in str(agent.told)
    assert node.vmids == [PET]
    assert not any("force" in sent.params for sent in node.writes)
    up(node.agent())
    node.before("PUT", f"{LXC}/{CATTLE}/config", lambda: node.root("pct", "start", CATTLE), nth=2)
    down(node.agent())  # the same during the detach, which stays pending
    assert node.vmids == [PET]
    assert "vm-100-disk-1" in node.volumes


def test_a_pet_is_unprotected_only_while_it_gets_a_volume(node: Node) -> None:
    """18. DELETE/mp change with protection -> 500 `… - protection mode enabled`; resize, rollback, move_volume
    still work"""
    up(node.agent())
    for method, path, params in (
        ("DELETE", f"{LXC}/{PET}", {}),
        ("PUT", f"{LXC}/{PET}/config", {"mp1": "local-lvm:1,mp=/x"}),
        ("PUT", f"{LXC}/{PET}/config", {"delete": "mp0"}),
    ):
        with pytest.raises(Protected):
            node.client().send(method, path, params)
    down(node.agent())
    node.sent.clear()
    up(node.agent(state={"size": "9G"}))  # Proxmox grows volumes of protected containers, so protection stays on
    assert not any("protection" in sent.params for sent in node.writes)
    node.sent.clear()
    up(node.agent("ant", state={"pet": PET}))
    changes = [sent.params for sent in node.writes if str(sent) == f"PUT {LXC}/{PET}/config"]
    assert [params.get("protection", "mp1" in params) for params in changes] == ["0", True, "1"]
    assert node.config(PET)["protection"] == 1
    down(node.agent("ant", state={"pet": PET}))
    # Protection is on again after any failure.
    node.fault("answer", "500:no space", method="PUT", path=f"{LXC}/{PET}/config", count=1)
    with pytest.raises(ApiError, match="no space"):
        up(node.agent("cat", state={"pet": PET}))
    assert node.config(PET)["protection"] == 1


def test_a_lock_is_waited_for_and_a_permanent_one_leads_to_the_manual(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """19. locked -> 500 `CT is locked (backup)` on PUT/DELETE; task error on start"""
    up(node.agent())
    for method in ("PUT", "DELETE"):
        node.put(CATTLE, lock="backup")
        path = f"{LXC}/{CATTLE}" + ("/config" if method == "PUT" else "")
        with pytest.raises(Locked):
            node.client().send(method, path, {"cores": 1} if method == "PUT" else None)
    node.before("GET", "/nodes/pve/tasks", lambda: node.put(CATTLE, lock=None), nth=3)
    agent = node.agent(machine={"cores": 3})
    up(agent)
    assert "is locked (backup); waiting for it to end" in str(agent.told)
    assert node.config(CATTLE)["cores"] == 3
    # Locked between observation and change: the run observes again, and waits.
    node.before("PUT", f"{LXC}/{CATTLE}/config", lambda: node.put(CATTLE, lock="snapshot"))
    node.before("GET", "/nodes/pve/tasks", lambda: node.put(CATTLE, lock=None), nth=4)
    up(node.agent(machine={"cores": 4}))
    assert node.config(CATTLE)["cores"] == 4
    node.put(CATTLE, lock="backup")
    monkeypatch.setattr(observe, "_SETTLE_SECONDS", 2)
    before = node.waits.passed
    with pytest.raises(Refused, match=r"locked \(backup\) for 2 s") as caught:
        down(node.agent())
    assert 2 <= node.waits.passed - before < 3
    assert "docs/proxmox.md says how root removes it" in str(caught.value.hint)
    assert "task list" in str(caught.value.hint)  # a backup may take hours, and a token sees no tasks of others
    assert "unlock" not in str(caught.value.hint)  # a lock may stand for a migration of the memory
    node.root("pct", "unlock", CATTLE)
    down(node.agent())
    assert node.vmids == [PET]


def test_a_concurrent_change_of_the_configuration_is_not_overwritten(node: Node) -> None:
    """20. stale digest -> 500 `detected modified configuration - file changed by other user? Try again.`"""
    up(node.agent())
    with pytest.raises(Modified):
        node.client().send("PUT", f"{LXC}/{CATTLE}/config", {"cores": 1, "digest": "0" * 40})
    node.before("PUT", "*/config", lambda: node.root("pct", "set", CATTLE, "--tags", "paddock;theirs"))
    agent = node.agent(machine={"tags": ["mine"]})
    up(agent)
    assert "detected modified configuration" in str(agent.told)
    assert node.config(CATTLE)["tags"] == "mine;paddock;theirs"
    down(node.agent())
    assert all(
        "digest" in sent.params for sent in node.writes if str(sent).startswith("PUT") and "size" not in sent.params
    )


def test_observe_skips_a_container_that_is_destroyed_meanwhile(node: Node) -> None:
    """21. unknown CT -> 500 `Configuration file 'nodes/pve1/lxc/105.conf' does not exist`"""
    with pytest.raises(NoContainer):
        node.client().get(f"{LXC}/105/config")
    node.somebody(150, pool=MACHINES)
    node.before("GET", f"{LXC}/150/config", lambda: node.root("pct", "destroy", 150))
    assert node.agent().node.observe().containers == {}
    up(node.agent())
    node.root("pct", "stop", CATTLE)
    node.before("DELETE", f"{LXC}/{CATTLE}", lambda: node.root("pct", "destroy", CATTLE))
    agent = node.agent()
    down(agent)  # someone else has already destroyed the machine
    assert node.vmids == [PET]


def test_a_machine_that_is_already_started_or_stopped_is_accepted(node: Node) -> None:
    """22. start running -> 500 `CT 105 already running`; stop stopped -> 500 `CT 105 not running`"""
    node.before("POST", "*/status/start", lambda: node.root("pct", "start", CATTLE))
    agent = node.agent()
    up(agent)
    assert f"machine {CATTLE} is already running" in str(agent.told)
    with pytest.raises(Running):
        node.client().send("POST", f"{LXC}/{CATTLE}/status/start")
    node.before("POST", "*/status/shutdown", lambda: node.root("pct", "stop", CATTLE))
    agent = node.agent()
    down(agent)
    assert f"machine {CATTLE} has already stopped" in str(agent.told)
    with pytest.raises(NotRunning):
        node.client().send("POST", f"{LXC}/{PET}/status/stop")


def test_task_warnings_are_printed_and_count_as_success(node: Node) -> None:
    """23. systemd guest without nesting -> exitstatus `WARNINGS: 1`,
    log `WARN: Systemd 257 detected. You may need to enable nesting.`"""
    agent = node.agent(machine={"features": []})
    assert "up and working" in up(agent)
    assert "WARN: Systemd 252 detected. You may need to enable nesting." in str(agent.told)


def test_observe_waits_for_tasks_of_its_own_token_only(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """24. task status running -> no exitstatus; UPID user field holds `u@pve!tok`, status splits user/tokenid;
    other token's task -> 403 `(/nodes/pve1, Sys.Audit)`"""
    go = node.hold_creates()
    client = node.client()
    upid = str(client.send("POST", LXC, create(200)))
    with pytest.raises(TaskFailed, match="vzcreate is still running after 5 s"):
        client.wait(upid, 5)
    assert 5 <= node.waits.passed < 6
    with node.unnoted():
        theirs = str(node.client(ROOT).send("POST", LXC, create(201)))
    with pytest.raises(Forbidden, match=r"\(/nodes/pve, Sys\.Audit\)"):
        client.wait(theirs, 5)
    threading.Timer(0.05, go.set).start()
    client.wait(upid, 600)
    # A token of root sees all tasks; it does not wait for those of others.
    go = node.hold_creates()
    client.send("POST", LXC, create(202))
    agent = node.agent(token=ROOT)
    agent.observe()
    assert "busy" not in str(agent.told)
    # It waits for its own tasks, with a timeout.
    monkeypatch.setattr(observe, "_TASK_SECONDS", 2)
    before = node.waits.passed
    with pytest.raises(PaddockError, match="has been busy with vzcreate 202 for 2 s"):
        node.agent(token=WIDE).observe()
    assert 2 <= node.waits.passed - before < 3
    go.set()


def test_an_unknown_task_is_an_error_with_a_message(node: Node) -> None:
    """25. bad UPID -> 400 errors.upid `unable to parse worker upid` / `no such task`"""
    with pytest.raises(BadParameters, match="upid: unable to parse worker upid"):
        node.client().wait("nonsense", 5)
    gone = f"UPID:pve:0003E1B1:0A1B2C3D:66A0B1C2:vzcreate:105:{WIDE}:"
    with pytest.raises(BadParameters, match="upid: no such task"):
        node.client().wait(gone, 5)


def test_free_numbers_are_unused_in_the_whole_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """26. nextid -> string; nextid?vmid=taken -> 400"""
    node = Node(tmp_path, nodes=("pve", "other"))
    play_ssh(monkeypatch, node)
    node.somebody_asks("POST", "/nodes/other/lxc", **create(100))
    assert node.client().get("/cluster/nextid") == "101"
    with pytest.raises(BadParameters, match="VM 100 already exists"):
        node.client().get("/cluster/nextid", {"vmid": 100})
    node.sent.clear()
    up(node.agent())
    # The token does not see container 100: nextid tells that its number is taken.
    assert [sent.params["vmid"] for sent in node.sent if "nextid" in sent.path][:2] == ["100", "101"]
    assert node.vmids == [100, 101, 102]


def test_up_waits_for_an_address_that_can_be_reached(node: Node) -> None:
    """27. interfaces stopped -> data null; running -> lo + eth0, prefix strings, address may appear seconds later"""
    node.machines.unanswered = 3
    agent = node.agent()
    up(agent)
    assert agent.observe().machine.address == f"10.0.0.{CATTLE}"
    asked = [sent for sent in node.sent if sent.path.endswith("/interfaces")]
    assert len(asked) >= 4
    node.machines.unanswered = 1
    assert node.agent().observe().machine.address is None  # loopback and link-local alone
    node.root("pct", "stop", CATTLE)
    assert node.agent().observe().machine.address is None


def test_paddock_takes_no_snapshot_that_includes_the_state(node: Node) -> None:
    """28. snapshot of cattle -> also snapshots the foreign volume; rollback rolls it back"""
    for sent in whole_life(node):
        assert not re.search(r"snapshot|rollback|move_volume|vzdump|storage/.*content", sent.path) or not sent.writes
        if re.search(r"/(template|clone)$", sent.path):
            builder = int(sent.path.split("/")[-2])
            assert builder not in (PET, CATTLE)
    state = {"size": "9G"}
    up(node.agent(state=state))
    node.somebody_asks("POST", f"{LXC}/{CATTLE}/snapshot", snapname="theirs")
    assert "snap_vm-100-disk-1_theirs" in node.volumes
    # Destroying the machine now would leave that volume behind, and Proxmox lists it nowhere.
    with pytest.raises(Refused, match="has snapshots") as caught:
        down(node.agent(state=state))
    assert node.running == [CATTLE]
    assert "delete" in str(caught.value.hint)
    node.somebody_asks("DELETE", f"{LXC}/{CATTLE}/snapshot/theirs")
    down(node.agent(state=state))
    assert node.vmids[0] == PET
    assert not any(name.startswith("snap_") for name in node.volumes)


def test_the_state_volume_grows_on_the_pet_and_never_shrinks(node: Node) -> None:
    """29. resize of foreign mp by cattle -> 500 `can't resize mount point owned by another container (999) at …`;
    needs VM.Config.Options too; shrink -> 500 `unable to shrink disk size`"""
    up(node.agent())
    with pytest.raises(ApiError, match="owned by another container"):
        node.client().send("PUT", f"{LXC}/{CATTLE}/resize", {"disk": "mp0", "size": "9G"})
    with pytest.raises(ApiError, match="unable to shrink disk size"):
        node.client().send("PUT", f"{LXC}/{PET}/resize", {"disk": "mp0", "size": "1G"})
    node.sent.clear()
    node.before("PUT", f"{LXC}/{PET}/resize", lambda: pytest.fail("the machine runs") if node.running else None)
    up(node.agent(state={"size": "9G"}))
    grown = [str(sent) for sent in node.writes if "size" in sent.params]
    assert grown == [f"PUT {LXC}/{PET}/resize"]
    assert node.running == [CATTLE]
    node.sent.clear()
    with pytest.raises(Refused, match="the state volume has 9G, but the file says 8G"):
        up(node.agent())
    up(node.agent(machine={"disk": "9G"}, state={"size": "9G"}))
    node.sent.clear()
    agent = node.agent(machine={"disk": "8G"}, state={"size": "9G"})
    up(agent)
    assert "has 9G, but the file says 8G: left as it is" in str(agent.told)
    assert not node.writes


def test_a_second_writer_is_refused_and_a_proxy_timeout_is_checked(node: Node) -> None:
    """30. two running CTs may mount one LVM-thin volume: no error; storage DELETE of a referenced, unmounted volume
    with Datastore.Allocate succeeds; DELETE with body -> 501; slow call > 30 s -> 596 empty body while the work
    continues"""
    up(node.agent())
    down(node.agent())
    node.somebody(150, pool=MACHINES, mp0=f"{STATE},mp=/mnt")
    node.root("pct", "start", 150)
    node.sent.clear()
    with pytest.raises(Refused, match=r"container 150 \(CT150\) also mounts local-lvm:vm-100-disk-1"):
        up(node.agent())
    assert not node.writes
    node.root("pct", "stop", 150)
    node.root("pct", "destroy", 150)
    node.fault("lose", method="POST", path=LXC)
    up(node.agent())
    node.sent.clear()
    node.fault("answer", "596", method="DELETE", path=f"{LXC}/{CATTLE}")
    agent = node.agent()
    down(agent)
    assert "596" in str(agent.told)
    assert node.vmids == [PET]
    deletes = [sent for sent in node.writes if sent.method == "DELETE"]
    assert len(deletes) == 2
    assert all(sent.body == b"" and sent.path == f"{LXC}/{CATTLE}" for sent in deletes)
    node.fault("answer", "596")
    with pytest.raises(AnswerLost):
        node.client().send("PUT", f"{LXC}/{PET}/config", {"cores": 1})


def test_every_behaviour_has_a_test() -> None:
    texts = [test.__doc__ or "" for name, test in globals().items() if name.startswith("test_")]
    numbers = [int(match[1]) for text in texts if (match := re.match(r"(\d+)\. ", text))]
    assert numbers == list(range(1, 31))
