"""Two pools limit what a token may touch and whose marks count; what cannot be read is never taken as absent."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.core.converge import cycle, down, forget, plan_forget, up
from paddock.places.contract import Finding
from paddock.places.proxmox.api.errors import Forbidden, Protected
from places.life import LXC, STATE, expect_down, expect_up
from places.node import BASE, CATTLE, DAILY, DEPLOYER, MACHINES, PET, STATES, WIDE, Node
from places.test_adopt import Adoption
from pvebox.server.certificates import CertificateInfo

FORGED = "paddock: v=2 role=cattle agent=home_bee"


def warned(finding: Finding) -> bool:
    """Whether a finding is a warning, other than that this agent has no backup."""
    return finding.warns and finding.subject != "memory of bee"


def hide(node: Node, vmid: int, token: str = DEPLOYER) -> None:
    node.root("pveum", "acl", "modify", f"/vms/{vmid}", "--roles", "NoAccess", "--tokens", token)


# Reproductions


def test_a_hidden_pet_is_not_replaced_by_an_empty_one(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    hide(node, PET)
    node.sent.clear()
    with pytest.raises(Refused, match=rf"may not read container {PET} in pool {STATES}; it is not known whether bee"):
        up(node.agent())
    assert not node.writes
    assert node.vmids == [PET]


def test_no_hint_leads_a_person_to_destroy_a_hidden_pet_that_the_file_names(node: Node) -> None:
    named: dict[str, Any] = {"state": {"pet": PET}}
    up(node.agent(**named))
    hide(node, PET)
    with pytest.raises(Refused, match=rf"the token lacks VM\.Audit on its owner, container {PET}"):
        down(node.agent(**named))
    node.root("pct", "stop", CATTLE)
    node.root("pct", "destroy", CATTLE)
    with pytest.raises(Refused, match=rf"lacks VM\.Audit on container {PET} in pool {STATES}") as caught:
        up(node.agent(**named))
    assert "destroy" not in str(caught.value.hint)


def test_a_hidden_machine_is_not_taken_as_absent(node: Node) -> None:
    up(node.agent())
    hide(node, CATTLE)
    node.sent.clear()
    for verb in (up, down, cycle):
        with pytest.raises(Refused, match=rf"may not read container {CATTLE} in pool {MACHINES}"):
            verb(node.agent())
    assert not node.writes


@pytest.mark.parametrize("token", [WIDE, DEPLOYER])
def test_a_forged_mark_outside_the_pools_gets_no_state_and_is_not_destroyed(node: Node, token: str) -> None:
    up(node.agent(token=token))
    down(node.agent(token=token))
    node.somebody(150, description=FORGED)
    before = node.config(150)
    if token == WIDE:
        for verb in (up, down):
            with pytest.raises(Refused, match=r"container 150 .* has the mark of its machine"):
                verb(node.agent(token=token))
    else:
        up(node.agent(token=token))
        assert node.running == [CATTLE]
        down(node.agent(token=token))
    assert node.config(150) == before
    assert STATE not in str(before)


def test_with_a_machine_of_its_own_a_forged_mark_is_ignored(node: Node) -> None:
    up(node.agent(token=WIDE))
    node.somebody(150, description=FORGED)
    before = node.config(150)
    assert "nothing to do" in up(node.agent(token=WIDE))
    with pytest.raises(Refused, match=r"container 150 .* has the mark of its machine"):
        cycle(node.agent(token=WIDE))  # after the machine is gone, the mark would be the only one
    assert node.config(150) == before
    assert node.running == [CATTLE]


def test_a_pet_in_the_pool_of_machines_is_not_believed(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    node.root("pveum", "pool", "modify", MACHINES, "--vms", PET, "--allow-move", 1)
    with pytest.raises(Refused, match=rf"container {PET} .* has the mark of its pet") as caught:
        up(node.agent())
    command = f"pveum pool modify {STATES} --vms {PET} --allow-move 1"
    assert f"{command}\n" in str(caught.value.hint)
    node.root(*command.split())
    up(node.agent())
    expect_up(node)


# The roles


PET_REQUESTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("protection", "PUT", f"{LXC}/{PET}/config", {"protection": 0}),
    ("notes", "PUT", f"{LXC}/{PET}/config", {"description": "mine"}),
    ("tags", "PUT", f"{LXC}/{PET}/config", {"tags": "mine"}),
    ("delete", "DELETE", f"{LXC}/{PET}", {}),
    ("snapshot", "POST", f"{LXC}/{PET}/snapshot", {"snapname": "s"}),
    ("start", "POST", f"{LXC}/{PET}/status/start", {}),
    ("resize", "PUT", f"{LXC}/{PET}/resize", {"disk": "mp0", "size": "+1G"}),
    ("move to another", "POST", f"{LXC}/{PET}/move_volume", {"volume": "mp0", "target-vmid": 150}),
]
OUTSIDE_REQUESTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("read", "GET", f"{LXC}/150/config", {}),
    ("stop", "POST", f"{LXC}/150/status/stop", {}),
    ("change", "PUT", f"{LXC}/150/config", {"memory": 512}),
    ("delete", "DELETE", f"{LXC}/150", {}),
    ("mount its volume", "PUT", f"{LXC}/{CATTLE}/config", {"mp1": "local-lvm:vm-150-disk-0,mp=/steal"}),
    ("create outside", "POST", LXC, {"vmid": 160, "ostemplate": BASE, "rootfs": "local-lvm:1"}),
    ("take into the pool", "PUT", "/pools", {"poolid": MACHINES, "vms": "150"}),
]


@pytest.fixture
def living(node: Node) -> Node:
    """An agent that is up, and somebody else's container."""
    up(node.agent())
    node.somebody(150)
    node.root("pct", "start", 150)
    return node


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [each[1:] for each in PET_REQUESTS + OUTSIDE_REQUESTS],
    ids=[f"pet: {each[0]}" for each in PET_REQUESTS] + [f"outside: {each[0]}" for each in OUTSIDE_REQUESTS],
)
def test_proxmox_refuses_the_daily_token(living: Node, method: str, path: str, params: dict[str, Any]) -> None:
    client = living.client(DAILY)
    ask: Callable[[], Any] = lambda: client.get(path, params) if method == "GET" else client.send(method, path, params)  # noqa: E731
    with pytest.raises(Forbidden):
        ask()


def test_the_daily_token_cannot_take_the_volume_out_of_the_pet(living: Node) -> None:
    with pytest.raises(Protected):
        living.client(DAILY).send("PUT", f"{LXC}/{PET}/config", {"delete": "mp0"})


@pytest.mark.parametrize("template", ["none", "auto"])
def test_the_daily_token_runs_an_agent_whose_pet_exists(node: Node, template: str) -> None:
    up(node.agent(template=template))
    down(node.agent(template=template))
    for verb in (up, cycle, down):
        verb(node.agent(template=template, token=DAILY))
    assert STATE.partition(":")[2] in node.volumes


def test_the_daily_token_makes_no_pet(node: Node) -> None:
    with pytest.raises(Refused, match=rf"lacks privileges: .*VM\.Config\.Options.* on /vms/{PET}"):
        up(node.agent(token=DAILY))
    assert node.vmids == []


# Adopt


def test_adopt_prints_the_command_that_puts_a_container_into_the_pool(node: Node) -> None:
    node.somebody(200, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    node.root("pct", "start", 200)
    for token in (DEPLOYER, WIDE):  # the first one does not even see the container
        with pytest.raises(Refused) as caught:
            Adoption(node, 200, token=token).run()
        command = f"pveum pool modify {MACHINES} --vms 200"
        assert str(caught.value.hint).endswith(f"run as root on the node: {command}")
    assert not node.writes
    node.root(*command.split())
    Adoption(node, 200).run()
    assert node.running == [200]


def test_adopt_asks_for_the_pools_of_machine_and_pet(node: Node) -> None:
    node.somebody(999, hostname="storage", mp0="local-lvm:1,mp=/home/bee")
    node.somebody(
        200, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0="local-lvm:vm-999-disk-1,mp=/home/bee"
    )
    node.root("pct", "start", 200)
    for command in (f"pveum pool modify {MACHINES} --vms 200", f"pveum pool modify {STATES} --vms 999"):
        with pytest.raises(Refused) as caught:
            Adoption(node, 200).run()
        assert command in str(caught.value.hint)
        node.root(*command.split())
    Adoption(node, 200).run()
    assert node.config(999)["protection"] == 1


# Numbers, and the line for the file


def test_up_prints_the_line_for_the_file_after_it_made_a_pet(node: Node) -> None:
    agent = node.agent()
    up(agent)
    assert f"state: {{pet: {PET}}}" in str(agent.told)
    assert "state: {pet:" not in str(_told(node, state={"pet": PET}))


def _told(node: Node, **keys: Any) -> str:
    agent = node.agent(**keys)
    down(agent)
    up(agent)
    return str(agent.told)


def test_a_number_in_the_file_that_something_invisible_has_is_refused(node: Node) -> None:
    node.somebody(300)
    with pytest.raises(Refused, match=r"state\.pet: 300 is taken by something that the token may not read"):
        up(node.agent(state={"pet": 300}))
    with pytest.raises(Refused, match=r"machine\.vmid: 300 is taken by something that the token may not read"):
        up(node.agent(machine={"vmid": 300}))
    assert not node.writes


def test_numbers_that_something_invisible_has_are_skipped(node: Node) -> None:
    for vmid in (100, 101, 103):
        node.somebody(vmid)
    up(node.agent())
    assert node.vmids == [100, 101, 102, 103, 104]
    assert node.running == [104]


# Without pools


def test_without_pools_marks_count_everywhere(node: Node) -> None:
    without: dict[str, Any] = {"token": WIDE, "pools": "none"}
    up(node.agent(**without))
    assert node.root("pveum", "pool", "list").count(str(PET)) == 0
    assert not any("pool" in sent.params or sent.path == "/pools" for sent in node.sent)
    expect_up(node)
    cycle(node.agent(**without))
    down(node.agent(**without))
    expect_down(node)
    seen, plan = plan_forget(node.agent(**without))
    forget(node.agent(**without), plan, seen)
    assert node.vmids == []


def test_up_refuses_while_a_pool_is_missing(node: Node) -> None:
    for verb in (up, down):
        with pytest.raises(Refused, match="the members of pool elsewhere cannot be listed") as caught:
            verb(node.agent(pools={"state": "elsewhere"}))
        assert "doctor" in str(caught.value.hint)
    assert not node.writes


# Doctor


def test_doctor_prints_pools_roles_and_acls_that_may_be_pasted_twice(node: Node) -> None:
    node.root("pveum", "user", "add", "new@pve")
    node.root("pveum", "user", "token", "add", "new@pve", "one", "--privsep", "1")
    keys: dict[str, Any] = {"token": "new@pve!one", "pools": {"machines": "m", "state": "s"}}
    findings, remedies = node.agent(**keys).examine()
    assert {f.subject: f.ok for f in findings if f.subject.startswith("pool ")} == {"pool m": False, "pool s": False}
    commands = [line for line in remedies if line.startswith("pveum")]
    for _ in range(2):
        for command in commands:
            node.root(*shlex.split(command))
    findings, remedies = node.agent(**keys).examine()
    assert remedies == []
    assert all(finding.ok and not warned(finding) for finding in findings), findings
    for verb in (up, cycle, down):
        verb(node.agent(**keys))
    seen, plan = plan_forget(node.agent(**keys))
    forget(node.agent(**keys), plan, seen)
    assert node.vmids == []


# What no role can prevent


def own(node: Node, **options: Any) -> None:
    """Let somebody with the daily token create a container of their own."""
    params: dict[str, Any] = {"vmid": 300, "ostemplate": BASE, "rootfs": "local-lvm:1", "features": "nesting=1"}
    node.client(DAILY).task("POST", LXC, {**params, "pool": MACHINES, **options})


def stopped(node: Node) -> None:
    """The agent's machine is stopped, and the pet has a snapshot of the memory."""
    up(node.agent())
    node.root("pct", "stop", CATTLE)


def test_a_daily_token_can_reassign_and_delete_the_memory_of_a_protected_pet(node: Node) -> None:
    """Mounting a volume takes VM.Config.Disk on its owner, and with that Proxmox lets it go, protected or not."""
    stopped(node)
    own(node)
    order: dict[str, str | int] = {"volume": "mp0", "target-vmid": 300, "target-volume": "mp1"}
    node.client(DAILY).task("POST", f"{LXC}/{PET}/move_volume", order)
    assert "mp0" not in node.config(PET)
    assert node.config(PET)["protection"] == 1
    node.client(DAILY).task("DELETE", f"{LXC}/300")
    assert "vm-100-disk-1" not in node.volumes


def test_a_daily_token_can_move_the_memory_away_through_the_machine(node: Node) -> None:
    """The source is removed with all its snapshots, although the pet's configuration still names them."""
    stopped(node)
    node.somebody_asks("POST", f"{LXC}/{PET}/snapshot", snapname="before")
    assert any("snap_vm-100-disk-1" in name for name in node.volumes)
    order: dict[str, str | int] = {"volume": "mp0", "storage": "local-lvm", "delete": 1}
    node.client(DAILY).task("POST", f"{LXC}/{CATTLE}/move_volume", order)
    assert not [name for name in node.volumes if "vm-100-disk-1" in name]
    assert node.config(PET)["mp0"].startswith(STATE)
    node.client(DAILY).task("DELETE", f"{LXC}/{CATTLE}")
    assert not [name for name in node.volumes if "vm-101" in name]


@pytest.mark.parametrize("running", [False, True])
def test_a_daily_token_can_unpack_a_tree_onto_the_memory(node: Node, *, running: bool) -> None:
    up(node.agent())
    if not running:
        node.root("pct", "stop", CATTLE)
    own(node, rootfs=STATE)
    assert node.config(300)["rootfs"].startswith(STATE)
    node.client(DAILY).task("DELETE", f"{LXC}/300")
    assert "vm-100-disk-1" in node.volumes  # it belongs to the pet


def test_verify_notices_a_container_that_uses_the_memory_as_its_root_disk(node: Node) -> None:
    up(node.agent())
    own(node, rootfs=STATE)
    agent = node.agent()
    seen = agent.node.observe(agent.machine_want)
    (found,) = [each for each in agent.node.verify(agent.machine_want, seen) if not each.ok]
    assert found.subject == "state.owner"
    assert f"also mounts {STATE}" in found.evidence


@pytest.mark.parametrize(
    ("to", "said", "warns"),
    [
        (None, "there is no backup", True),
        ({"proxmox": {"storage": "local"}}, "and its backups on local", True),
        ({"folder": "/srv/backups"}, "but not its backups", False),
    ],
)
def test_doctor_says_whether_a_backup_is_out_of_the_tokens_reach(
    node: Node, to: dict[str, Any] | None, said: str, warns: bool
) -> None:
    keys: dict[str, Any] = {"backup": {"to": to}} if to else {}
    agent = node.agent(template="auto", **keys)
    (found,) = [each for each in agent.examine()[0] if each.subject == "memory of bee"]
    assert (found.ok, found.warns) == (True, warns)
    assert "can delete or overwrite it" in found.evidence
    assert said in found.evidence


def test_doctor_accepts_a_daily_token_while_the_pets_exist(node: Node) -> None:
    findings, remedies = node.agent(token=DAILY).examine()
    assert not all(finding.ok for finding in findings)
    assert any("PaddockPetSetup" in line for line in remedies)
    up(node.agent())
    findings, remedies = node.agent(token=DAILY).examine()
    assert all(finding.ok for finding in findings)
    assert remedies == []


def test_doctor_says_what_a_token_may_do_beyond_its_needs(node: Node) -> None:
    up(node.agent())
    assert not [f for f in node.agent().examine()[0] if warned(f)]
    more = [f.evidence for f in node.agent(token=WIDE).examine()[0] if warned(f)]
    assert len(more) == 1
    assert "may do more than it needs: " in more[0]
    assert "VM.Allocate" in more[0]
    assert " on /vms" in more[0]


def test_doctor_says_what_working_without_pools_costs(node: Node) -> None:
    findings = node.agent(token=WIDE, pools="none").examine()[0]
    assert [f.evidence for f in findings if f.subject == "pools" and f.warns]


@pytest.mark.parametrize(("version", "warns"), [("9.2.11", False), ("8.4.1", True), ("10.0", True)])
def test_doctor_warns_about_versions_that_were_never_tested(node: Node, version: str, warns: bool) -> None:
    node.world.release = replace(node.world.release, version=version)
    findings = node.agent().examine()[0]
    assert [f.evidence for f in findings if warned(f)] == (
        [f"this Paddock was tested with Proxmox VE 9, never with {version}"] if warns else []
    )
    assert any(version in f.evidence for f in findings if f.subject == "reached")


@pytest.mark.parametrize(("days", "warns"), [(10, True), (300, False)])
def test_doctor_warns_about_a_token_that_expires_soon(node: Node, days: int, warns: bool) -> None:
    node.world.access.tokens[DEPLOYER].expire = int(time.time()) + days * 86400
    assert not [f for f in node.agent().examine()[0] if warned(f)]  # it may not read this about itself
    node.root("pveum", "acl", "modify", "/access/groups", "--users", "pooled@pve", "--roles", "PVEAuditor")
    node.root("pveum", "acl", "modify", "/access/groups", "--tokens", DEPLOYER, "--roles", "PVEAuditor")
    told = [f.evidence for f in node.agent().examine()[0] if warned(f)]
    assert [text.partition(" on ")[0] for text in told] == (["expires"] if warns else [])


@pytest.mark.parametrize(("days", "warns"), [(10, True), (300, False)])
def test_doctor_warns_about_a_pinned_certificate_that_is_renewed_soon(node: Node, days: int, warns: bool) -> None:
    pinned = ":".join(["AB"] * 32)
    ends = int(time.time()) + days * 86400
    node.world.certificates = [CertificateInfo("pve-ssl.pem", pinned, notbefore=0, notafter=ends)]
    told = [f for f in node.agent(fingerprint=pinned).examine()[0] if warned(f)]
    assert [f.subject for f in told] == (["certificate"] if warns else [])
    assert not [f for f in node.agent().examine()[0] if warned(f)]
