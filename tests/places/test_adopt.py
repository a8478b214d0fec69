"""Adopting existing containers and volumes: nothing else changes, and no volume is lost after any fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import cycle, down, forget, plan_forget, up
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.machine import reach as reach_module
from paddock.places.proxmox.machine.reach import fingerprint
from paddock.places.proxmox.node.notes import Mark
from paddock.plan.actions import PlaceAction
from paddock.plan.step import AdoptTarget, Goal
from paddock.verbs.adopt import adopt, describe
from places.life import LXC, runs_until_done
from places.node import MACHINES, STATES, Killed, Node, PaperAgent, PlayedSsh

HOME = "/home/bee"
OWN = "local-lvm:vm-200-disk-1"


class Adoption:
    """An adopt target, and the file after its description was written into it."""

    def __init__(self, node: Node, vmid: int | None, volume: str | None = None, **keys: Any) -> None:
        self.node = node
        self.target = AdoptTarget(vmid, volume)
        self.keys: dict[str, Any] = keys
        self.looked = False
        if vmid in node.machines.host_keys:  # a person has compared the key
            key = fingerprint(node.machines.host_keys[vmid])
            self.keys["machine"] = {**keys.get("machine", {}), "host_key": key}
        self.told = ""

    def agent(self) -> PaperAgent:
        return self.node.agent(**self.keys)

    def run(self, agent: PaperAgent | None = None) -> str:
        """What the verb does: the file first."""
        for part, said in describe(agent or self.agent(), self.target).said.items():
            self.keys[part] = {**self.keys.get(part, {}), **said} if isinstance(said, Mapping) else said
        agent = self.agent()
        try:
            return adopt(agent, self.target, looked=self.looked)
        finally:
            self.told = str(agent.told)

    def planned(self) -> list[str]:
        agent = self.agent()
        plan = agent.plan_up()
        steps = [step for step in plan.steps if isinstance(step.action, PlaceAction)]
        return [*(step.title for step in steps), *(r.reason for r in plan.refusals), *plan.notes]


@pytest.fixture
def pet_and_cattle(node: Node) -> Node:
    """A stopped container that owns the volume, and a running one that mounts it."""
    node.somebody(999, pool=STATES, hostname="storage", mp0=f"local-lvm:10,mp={HOME},backup=1", protection=1)
    node.somebody(
        *(105,),
        pool=MACHINES,
        hostname="bee",
        description="made by hand",
        cores=3,
        memory=1024,
        net0="name=eth0,bridge=vmbr0,hwaddr=BC:24:11:AA:BB:CC,ip=dhcp,ip6=auto",
        nameserver="9.9.9.9",
        tags="lab",
        mp0=f"local-lvm:vm-999-disk-1,mp={HOME}",
    )
    node.root("pct", "start", 105)
    return node


@pytest.fixture
def single(node: Node) -> Node:
    """One container that is the machine and owns the state volume too."""
    node.somebody(
        200, pool=MACHINES, hostname="bee", mp0=f"local-lvm:8,mp={HOME}", net0="name=eth0,bridge=vmbr0,ip=dhcp"
    )
    node.root("pct", "start", 200)
    return node


# A machine with a pet


def test_adopt_marks_the_machine_and_changes_nothing_else(pet_and_cattle: Node) -> None:
    node = pet_and_cattle
    before = node.config(105)
    adoption = Adoption(node, 105)
    assert adoption.run() == "bee: adopted; `paddock plan` shows what `up` would change"
    assert adoption.keys["machine"].pop("host_key")
    assert adoption.keys["machine"] == {
        "vmid": 105,
        "hostname": "bee",
        "description": "made by hand",
        "cores": 3,
        "memory": "1G",
        "swap": "512M",
        "disk": "1G",
        "net": {"address": "dhcp", "mac": "BC:24:11:AA:BB:CC"},
        "dns": ["9.9.9.9"],
        "features": ["nesting"],
        "start_on_boot": False,
        "tags": ["lab"],
    }
    assert adoption.keys["state"] == {"size": "10G", "path": HOME, "pet": 999}
    assert adoption.planned() == []
    after = node.config(105)
    assert {key for key in after if after[key] != before.get(key)} == {"description", "tags"}
    assert after["description"].startswith("made by hand\n\npaddock: v=2 role=cattle agent=home_bee")
    assert {int(sent.path.split("/")[4]) for sent in node.writes} == {105, 999}
    assert [str(sent) for sent in node.writes if not sent.path.endswith("/config")] == []
    node.sent.clear()
    assert "was already adopted" in adoption.run()
    assert not node.writes


def test_adopt_gives_ssh_a_host_name_without_spaces(pet_and_cattle: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh looks the host key up by this name."""
    names: list[str] = []

    def connect(name: str, address: str, **_: Any) -> PlayedSsh:
        names.append(name)
        return PlayedSsh(pet_and_cattle.machines, address)

    monkeypatch.setattr(reach_module, "SshGuest", connect)
    Adoption(pet_and_cattle, 105).run()
    assert names == ["container-105"]


def test_up_does_not_change_settings_of_an_adopted_machine_that_the_file_omits(pet_and_cattle: Node) -> None:
    node = pet_and_cattle
    node.put(105, cores=None, features=None, swap=None)
    adoption = Adoption(node, 105)
    adoption.run()
    assert {"cores", "features"}.isdisjoint(adoption.keys["machine"])
    assert adoption.planned() == []


@pytest.mark.parametrize(
    ("own", "said", "backup"),
    [("", None, "1"), (",backup=0", None, "0"), (",backup=0", True, "1"), (",backup=1", False, "0"), ("", False, "0")],
)
def test_an_adopted_state_is_in_the_backups_of_its_pet(
    pet_and_cattle: Node, own: str, said: bool | None, backup: str
) -> None:
    node = pet_and_cattle
    node.put(999, mp0=f"local-lvm:vm-999-disk-1,mp={HOME},size=10G{own}")
    adoption = Adoption(node, 105)
    if said is not None:
        adoption.keys["state"] = {"backup": said}
    adoption.run()
    assert f",backup={backup}" in node.config(999)["mp0"]
    assert adoption.planned() == []


def test_adopt_names_settings_that_the_file_cannot_express(pet_and_cattle: Node) -> None:
    node = pet_and_cattle
    node.put(105, net1="name=eth1,bridge=vmbr1,ip=dhcp", cpulimit="1.5")
    adoption = Adoption(node, 105)
    adoption.run()
    for what in ("destroy container 105", "net1: name=eth1", "cpulimit: 1.5", "net0: ip6=auto"):
        assert what in adoption.told


def test_cycle_recreates_an_adopted_machine_with_its_state(pet_and_cattle: Node) -> None:
    node = pet_and_cattle
    adoption = Adoption(node, 105)
    adoption.run()
    cycle(adoption.agent())
    assert node.config(105)["mp0"].startswith(f"local-lvm:vm-999-disk-1,mp={HOME}")
    assert "hwaddr=BC:24:11:AA:BB:CC" in node.config(105)["net0"]  # DHCP gives it the same address
    assert adoption.planned() == []
    down(adoption.agent())
    assert node.volumes == {"vm-999-disk-0", "vm-999-disk-1"}


@pytest.mark.parametrize("after", range(1, 8))
def test_adopt_continues_after_a_kill_at_any_request(pet_and_cattle: Node, after: int) -> None:
    adoption = Adoption(pet_and_cattle, 105)
    pet_and_cattle.kill_after = after
    ends = runs_until_done(lambda _: adoption.run(), adoption.agent)
    assert [type(end) for end in ends] == [Killed]
    assert adoption.planned() == []
    assert pet_and_cattle.config(999)["protection"] == 1


@pytest.mark.parametrize("after", range(1, 7))
def test_up_after_an_interrupted_adopt_creates_no_second_state(pet_and_cattle: Node, after: int) -> None:
    """The last request records the host key; `up` does that too."""
    adoption = Adoption(pet_and_cattle, 105)
    pet_and_cattle.kill_after = after
    with pytest.raises(Killed):
        adoption.run()
    if after < 5:
        with pytest.raises(Refused):
            up(adoption.agent())
        adoption.run()
    up(adoption.agent())
    assert adoption.planned() == []
    assert pet_and_cattle.volumes == {"vm-999-disk-0", "vm-999-disk-1", "vm-105-disk-0"}


def test_adopt_creates_a_state_for_a_machine_without_one(node: Node) -> None:
    node.somebody(150, pool=MACHINES, net0="name=eth0,bridge=vmbr0,ip=dhcp")
    node.root("pct", "start", 150)
    adoption = Adoption(node, 150, state={"size": "1G"})
    adoption.run()
    assert node.running == [150]
    assert node.config(150)["mp0"].startswith("local-lvm:vm-100-disk-1,mp=/var/lib/paddock/bee")
    assert adoption.planned() == []


def test_two_runs_of_adopt_do_not_overwrite_each_other(pet_and_cattle: Node) -> None:
    node = pet_and_cattle
    node.before(
        "PUT", f"{LXC}/105/config", lambda: node.put(105, description="mine\n\npaddock: v=2 role=cattle agent=home_ant")
    )
    with pytest.raises(Refused, match="is the machine of ant"):
        Adoption(node, 105).run()
    assert "agent=home_ant" in node.config(105)["description"]


# A volume that its container owns


def test_adopt_refuses_a_machine_that_owns_a_volume(single: Node) -> None:
    with pytest.raises(Refused, match=r"owns local-lvm:vm-200-disk-1 \(mp0 at /home/bee\)") as caught:
        Adoption(single, 200).run()
    assert "paddock adopt bee 200 --state mp0" in str(caught.value.hint)
    assert not single.writes


def expect_given_to_a_pet(node: Node, adoption: Adoption) -> None:
    """Expect that the protected pet has the volume, and that there is no second state."""
    pet = node.config(100)
    assert pet["mp0"].startswith("local-lvm:vm-100-disk-1,mp=/var/lib/paddock/home_bee")
    assert pet["protection"] == 1
    assert "adopted=home_bee" in pet["description"]
    assert {"vm-100-disk-0", "vm-100-disk-1"} <= node.volumes
    assert "vm-200-disk-1" not in node.volumes
    assert adoption.agent().node.observe().users_of("local-lvm:vm-100-disk-1")


def test_adopt_moves_a_volume_of_the_machine_to_a_pet(single: Node) -> None:
    adoption = Adoption(single, 200, "mp0")
    adoption.run()
    expect_given_to_a_pet(single, adoption)
    assert single.config(200)["mp0"].startswith(f"local-lvm:vm-100-disk-1,mp={HOME}")
    assert single.running == [200]
    assert adoption.planned() == []
    down(adoption.agent())
    expect_given_to_a_pet(single, adoption)
    assert single.vmids == [100]


@pytest.mark.parametrize("after", range(1, 14))
def test_moving_the_volume_continues_after_a_kill_at_any_request(single: Node, after: int) -> None:
    adoption = Adoption(single, 200, "mp0")
    single.kill_after = after
    ends = runs_until_done(lambda _: adoption.run(), adoption.agent)
    assert [type(end) for end in ends] == [Killed]
    assert single.running == [200]  # it ran, so it runs again, also if the run was killed while it was stopped
    assert "paddock-restart" not in single.config(200)["description"]
    expect_given_to_a_pet(single, adoption)
    assert adoption.planned() == []
    assert single.vmids == [100, 200]


@pytest.mark.parametrize("after", range(1, 14))
def test_up_after_an_interrupted_move_creates_no_second_state(single: Node, after: int) -> None:
    adoption = Adoption(single, 200, "mp0")
    single.kill_after = after
    with pytest.raises(Killed):
        adoption.run()
    single.world.tasks.wait_for_all(10)  # the task of the last request goes on without the run
    before = single.volumes
    try:
        up(adoption.agent())
    except PaddockError:
        assert single.volumes == before
        adoption.run()
        up(adoption.agent())
    expect_given_to_a_pet(single, adoption)
    assert adoption.planned() == []


@pytest.mark.parametrize("nth", range(1, 14))
@pytest.mark.parametrize(("kind", "value"), [("lose", ""), ("answer", "596")])
def test_moving_the_volume_survives_any_lost_response(single: Node, kind: str, value: str, nth: int) -> None:
    adoption = Adoption(single, 200, "mp0")
    single.before("*", "*", lambda: single.fault(kind, value), nth=nth)
    runs_until_done(lambda _: adoption.run(), adoption.agent)
    up(adoption.agent())
    expect_given_to_a_pet(single, adoption)
    assert adoption.planned() == []


def test_a_failed_move_does_not_change_where_the_machine_has_its_state(single: Node) -> None:
    adoption = Adoption(single, 200, "mp0")
    single.fault("answer", "500:cluster not ready - no quorum?", path="*/move_volume")
    with pytest.raises(PaddockError, match="no quorum"):
        adoption.run()
    adoption.run()
    assert single.config(200)["mp0"].startswith(f"local-lvm:vm-100-disk-1,mp={HOME}")


def test_the_ranges_of_the_kill_tests_cover_every_request(single: Node) -> None:
    Adoption(single, 200, "mp0").run()
    calls = [(sent.method, sent.path.removeprefix(LXC)) for sent in single.writes]
    assert calls == [
        ("POST", ""),
        ("PUT", "/100/config"),  # the pet is settled
        ("PUT", "/200/config"),  # a note that the machine ran
        ("POST", "/200/status/shutdown"),
        ("PUT", "/200/config"),  # the path that names the agent
        ("PUT", "/100/config"),  # protection off
        ("POST", "/200/move_volume"),
        ("PUT", "/100/config"),  # protection on
        ("PUT", "/100/config"),  # a claim
        ("PUT", "/200/config"),  # the state attached, with the mark
        ("PUT", "/100/config"),  # no claim
        ("POST", "/200/status/start"),
        ("PUT", "/200/config"),  # its host key
    ]


def test_adopt_of_a_volume_alone_leaves_its_container_unmarked(single: Node) -> None:
    single.root("pct", "stop", 200)
    adoption = Adoption(single, None, OWN)
    adoption.run()
    expect_given_to_a_pet(single, adoption)
    assert "paddock" not in single.config(200).get("description", "")
    up(adoption.agent())
    assert single.running == [101]
    assert single.config(101)["mp0"].startswith("local-lvm:vm-100-disk-1,mp=/var/lib/paddock/bee")


def test_adopt_moves_an_unused_volume_to_a_pet(single: Node) -> None:
    single.root("pct", "stop", 200)
    single.put(200, mp0=None, unused0=OWN)
    adoption = Adoption(single, 200, "unused0")
    with pytest.raises(
        Refused, match=r"could not be searched for files of bee: container 200 \(bee\) is stopped"
    ) as caught:
        adoption.run()
    assert "--looked" in str(caught.value.hint)
    assert not single.writes
    adoption.looked = True
    adoption.run()
    expect_given_to_a_pet(single, adoption)


def test_adopt_moves_the_volume_to_the_pet_in_the_file(single: Node) -> None:
    up(single.agent("ant", state={"pet": 300, "size": "1G"}))
    adoption = Adoption(single, 200, "mp0", state={"pet": 300})
    adoption.run()
    assert single.config(300)["mp1"].startswith("local-lvm:vm-300-disk-2,mp=/var/lib/paddock/home_bee")
    assert single.config(300)["protection"] == 1
    assert adoption.planned() == []
    assert "nothing to do" in up(single.agent("ant", state={"pet": 300, "size": "1G"}))


def test_adopt_finds_the_volume_after_the_move_renamed_it(single: Node) -> None:
    single.root("pct", "stop", 200)
    adoption = Adoption(single, None, OWN, state={"volume": OWN})
    with pytest.raises(Refused, match="no pet has local-lvm:vm-200-disk-1") as caught:
        up(adoption.agent())
    assert f"paddock adopt bee --state {OWN}" in str(caught.value.hint)
    adoption.run()
    up(adoption.agent())
    expect_given_to_a_pet(single, adoption)


def test_adopt_finds_a_volume_that_no_configuration_names(single: Node) -> None:
    """Moving a volume by hand to a protected container leaves it in no configuration."""
    single.root("pct", "stop", 200)
    single.somebody(999, pool=STATES, protection=1)
    with pytest.raises(TaskFailed, match="protection mode enabled"):
        single.client().task("POST", f"{LXC}/200/move_volume", {"volume": "mp0", "target-vmid": 999})
    adoption = Adoption(single, None, "local-lvm:vm-999-disk-1")
    adoption.run()
    assert single.config(999)["mp0"].startswith("local-lvm:vm-999-disk-1,mp=/var/lib/paddock/home_bee")
    assert single.config(999)["protection"] == 1
    up(adoption.agent())


def test_adopt_does_not_move_a_volume_to_a_protected_pet(single: Node) -> None:
    adoption = Adoption(single, 200, "mp0")
    single.before("POST", "*/move_volume", lambda: single.put(100, protection=1))
    single.before("PUT", f"{LXC}/100/config", lambda: seen.append(single.config(200).get("mp0", "")), nth=2)
    seen: list[str] = []
    adoption.run()
    assert "detected modified configuration" in adoption.told
    assert OWN in seen[0]  # the volume was not moved when the run observed again
    up(adoption.agent())
    expect_given_to_a_pet(single, adoption)


def test_the_plan_of_up_flags_an_adopted_state(single: Node) -> None:
    adoption = Adoption(single, 200, "mp0")
    adoption.run()
    agent = adoption.agent()
    assert agent.node.plan(Goal.UP, agent.machine_want, agent.node.observe()).after.adopted_state
    up(single.agent("ant", state={"size": "1G"}))
    ant = single.agent("ant", state={"size": "1G"})
    assert not ant.node.plan(Goal.UP, ant.machine_want, ant.node.observe()).after.adopted_state


def test_up_after_forget_creates_a_new_state_for_an_adopted_agent(single: Node) -> None:
    up(single.agent("ant", state={"pet": 300, "size": "1G"}))
    adoption = Adoption(single, 200, "mp0", state={"pet": 300})
    adoption.run()
    down(adoption.agent())
    seen, plan = plan_forget(adoption.agent())
    forget(adoption.agent(), plan, seen)
    mark = Mark.from_notes(single.config(300)["description"])
    assert mark is not None
    assert mark.adopted_agents == set()
    up(adoption.agent())


# Refused


def somebody_runs(node: Node, vmid: int, **options: Any) -> None:
    node.somebody(vmid, **options)
    node.root("pct", "start", vmid)


REFUSED: list[tuple[str, Callable[[Node], object], AdoptTarget, str]] = [
    ("nothing", lambda n: None, AdoptTarget(), "nothing to adopt was named"),
    ("nowhere", lambda n: None, AdoptTarget(404), "container 404 does not exist"),
    ("no such volume", lambda n: None, AdoptTarget(200, "mp5"), "there is no volume mp5"),
    ("no such name", lambda n: None, AdoptTarget(None, "local-lvm:vm-404-disk-1"), "there is no volume"),
    ("template", lambda n: n.put(200, template=1), AdoptTarget(200, "mp0"), "is a template"),
    ("locked", lambda n: n.put(200, lock="backup"), AdoptTarget(200, "mp0"), r"is locked \(backup\)"),
    ("privileged", lambda n: n.put(200, unprivileged=None), AdoptTarget(200, "mp0"), "is privileged"),
    ("snapshots", lambda n: n.put(200, parent="before"), AdoptTarget(200, "mp0"), "has snapshots"),
    ("protected", lambda n: n.put(200, protection=1), AdoptTarget(200, "mp0"), "is protected"),
    ("running", lambda n: None, AdoptTarget(None, OWN), "container 200 .* is running"),
    (
        "another's machine",
        lambda n: n.put(200, description="paddock: v=2 role=cattle agent=home_ant"),
        AdoptTarget(200, "mp0"),
        "is the machine of ant",
    ),
    (
        "a pet",
        lambda n: n.put(200, description="paddock: v=2 role=pet"),
        AdoptTarget(200, "mp0"),
        "is a pet of Paddock",
    ),
    (
        "a later mark",
        lambda n: n.put(200, description="paddock: v=3 role=pet"),
        AdoptTarget(200),
        "a newer Paddock wrote the mark",
    ),
    (
        "one more volume",
        lambda n: n.root("pct", "set", 200, "-mp1", "local-lvm:1,mp=/data"),
        AdoptTarget(200, "mp0"),
        r"owns local-lvm:vm-200-disk-2 \(mp1 at /data\)",
    ),
    (
        "a taken pet",
        lambda n: n.somebody(300),
        AdoptTarget(200, "mp0"),
        "state.pet: 300 is taken by something that the token may not read",
    ),
    (
        "another's pet, which runs",
        lambda n: somebody_runs(n, 300, pool=STATES, description="paddock: v=2 role=pet"),
        AdoptTarget(200, "mp0"),
        "is a pet and is running",
    ),
    (
        "mounted elsewhere",
        lambda n: somebody_runs(n, 210, pool=MACHINES, mp0=f"{OWN},mp=/x"),
        AdoptTarget(200, "mp0"),
        "container 210 .* also mounts",
    ),
]


@pytest.mark.parametrize(
    ("happens", "target", "reason"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_adopt_refuses_unsuitable_targets_without_writing(
    single: Node, happens: Callable[[Node], object], target: AdoptTarget, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens(single)
    keys = {"state": {"pet": 300}} if 300 in single.vmids else {}
    before = {vmid: single.config(vmid) for vmid in single.vmids}
    with pytest.raises(Refused, match=reason) as caught:
        Adoption(single, target.machine, target.state, **keys).run()
    assert caught.value.hint
    assert not single.writes
    assert {vmid: single.config(vmid) for vmid in single.vmids} == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"onboot": 1}, "would start with the node"),
        ({"description": "paddock: v=2 role=cattle agent=home_ant"}, "is the machine of ant of project home"),
        ({"unprivileged": None}, "is privileged"),
        ({"mp0": "local-lvm:vm-999-disk-1,mp=/var/lib/paddock/home_ant"}, "is the state of ant of project home"),
    ],
)
def test_adopt_refuses_an_owner_that_cannot_be_a_pet(pet_and_cattle: Node, change: dict[str, Any], reason: str) -> None:
    pet_and_cattle.put(999, **change)
    with pytest.raises(Refused, match=reason):
        Adoption(pet_and_cattle, 105).run()
    assert not pet_and_cattle.writes


def test_adopt_refuses_a_running_pet(pet_and_cattle: Node) -> None:
    pet_and_cattle.root("pct", "start", 999)
    with pytest.raises(Refused, match="is a pet and is running"):
        Adoption(pet_and_cattle, 105).run()
    assert not pet_and_cattle.writes


def test_adopt_refuses_a_second_machine_of_the_agent(pet_and_cattle: Node) -> None:
    up(pet_and_cattle.agent(state={"size": "1G"}))
    pet_and_cattle.sent.clear()
    with pytest.raises(Refused, match="is already the machine of bee"):
        Adoption(pet_and_cattle, 105).run()
    assert not pet_and_cattle.writes


# Other runs

OTHER_CLAIM = "\npaddock-claim: desk/00000001 until 2999-01-01T00:00:00+00:00"


@pytest.mark.parametrize("claimed", [999, 105])
def test_adopt_respects_the_claim_of_another_run(pet_and_cattle: Node, claimed: int) -> None:
    node = pet_and_cattle
    node.put(claimed, description=node.config(claimed).get("description", "") + OTHER_CLAIM)
    before = node.config(105)
    with pytest.raises(Refused, match=f"desk/00000001 is at work on container {claimed} .* until 00:00:00 UTC"):
        Adoption(node, 105).run()
    assert node.config(105) == before


def test_adopt_claims_the_pet_while_it_gives_the_state_to_the_machine(single: Node) -> None:
    Adoption(single, 200, "mp0").run()
    attach = next(at for at, sent in enumerate(single.writes) if "role=cattle" in sent.params.get("description", ""))
    before, after = single.writes[attach - 1], single.writes[attach + 1]
    assert (before.path, after.path) == (f"{LXC}/100/config",) * 2
    assert "paddock-claim" in before.params["description"]
    assert "paddock-claim" not in after.params["description"]
    assert single.writes[attach].params["mp0"].startswith("local-lvm:vm-100-disk-1")


@pytest.mark.parametrize("words", ["new=desk/00000001", "maker=desk/00000001"])
def test_adopt_gives_no_state_to_a_second_machine(single: Node, words: str) -> None:
    """Another run creates a machine for the same agent, after the plan of `adopt`."""
    mark = f"paddock: v=2 role=cattle agent=home_bee {words}"
    single.before(
        "POST", "*/move_volume", lambda: single.somebody(150, pool=MACHINES, description=mark, hostname="bee")
    )
    with pytest.raises(Refused, match=r"container 150 \(bee\) is a machine of bee by now"):
        Adoption(single, 200, "mp0").run()
    assert "mp0" not in single.config(200)
    assert "claim" not in single.config(100)["description"]


def test_a_machine_that_was_stopped_stays_stopped_after_an_interrupted_adoption(single: Node) -> None:
    single.root("pct", "stop", 200)
    adoption = Adoption(single, 200, "mp0")
    adoption.looked = True
    single.kill_after = 4
    assert [type(end) for end in runs_until_done(lambda _: adoption.run(), adoption.agent)] == [Killed]
    assert single.running == []
    expect_given_to_a_pet(single, adoption)


def test_the_note_that_a_machine_ran_never_becomes_its_description(single: Node) -> None:
    single.put(200, description="of the family")
    adoption = Adoption(single, 200, "mp0")
    single.kill_after = 4  # shut down
    runs_until_done(lambda _: adoption.run(), adoption.agent)
    assert adoption.keys["machine"]["description"] == "of the family"
    assert single.config(200)["description"].startswith("of the family\n\npaddock: v=2 role=cattle")
