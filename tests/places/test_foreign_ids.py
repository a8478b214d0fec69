"""Whatever marks and paths a node has, a plan for one agent changes nothing of another agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.file.agent_id import AgentId
from paddock.file.models.whole import ProxmoxSpec
from paddock.kinds import agent_from
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import (
    AddVolume,
    CreateCattle,
    CreatePet,
    DeleteVolume,
    DestroyPet,
    GrowVolume,
    IncludeVolume,
    RenameMachine,
    RenamePet,
)
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet.plan import agent_of, path_in_pet
from paddock.places.proxmox.planner import NodePlanner
from paddock.plan.step import Step
from places.test_planner import NODE

HOME, LAB, OLD = AgentId("home", "hermes"), AgentId("lab", "hermes"), AgentId("", "hermes")
IDS = [HOME, LAB, OLD, AgentId("home", "other"), AgentId("lab", "other"), AgentId("", "other")]
PETS, MACHINES = (900, 901, 902), (105, 106, 107)
PLANNER = NodePlanner(ProxmoxSpec.model_validate(NODE), public_key="ssh-ed25519 AAAApublic paddock")


@st.composite
def pets(draw: st.DrawFn, vmid: int) -> LxcContainer:
    owners = draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
    config: dict[str, Any] = {"hostname": f"pet{vmid}", "rootfs": f"local-lvm:vm-{vmid}-disk-0,size=2G"}
    for number, owner in enumerate(owners):
        config[f"mp{number}"] = f"local-lvm:vm-{vmid}-disk-{number + 1},mp={path_in_pet(owner)},size=8G"
    words = draw(st.sampled_from(["v=1 role=pet", "v=2 role=pet", "v=2 role=pet", "v=3 role=pet", "role=pet"]))
    forgotten = draw(st.sampled_from([None, None, None, *IDS]))
    if forgotten:
        words += f" forgetting={forgotten}/local-lvm:vm-{vmid}-disk-1"
    config |= {"description": f"paddock: {words}", "protection": draw(st.integers(0, 1))}
    return LxcContainer(vmid, "stopped", config)


@st.composite
def machines(draw: st.DrawFn, vmid: int) -> LxcContainer:
    owner = draw(st.sampled_from(IDS))
    version = draw(st.sampled_from([2, 2, 3])) if owner.project else 1
    config: dict[str, Any] = {"hostname": "hermes", "rootfs": f"local-lvm:vm-{vmid}-disk-0,size=8G"}
    config["description"] = f"paddock: v={version} role=cattle agent={owner} host-key=AAAAkey"
    mounted = draw(st.sampled_from([None, *((pet, disk) for pet in PETS for disk in (1, 2))]))
    if mounted:
        config["mp0"] = f"local-lvm:vm-{mounted[0]}-disk-{mounted[1]},mp=/var/lib/paddock/hermes"
    status = draw(st.sampled_from(["running", "stopped"]))
    return LxcContainer(vmid, status, config, "10.0.0.5" if status == "running" else None)


@st.composite
def nodes(draw: st.DrawFn) -> ProxmoxSeen:
    chosen = draw(st.sets(st.sampled_from((*PETS, *MACHINES)), max_size=5))
    containers = {vmid: draw(pets(vmid) if vmid in PETS else machines(vmid)) for vmid in sorted(chosen)}
    return ProxmoxSeen(containers, frozenset(containers))


@st.composite
def wants(draw: st.DrawFn) -> MachineWant:
    state = draw(
        st.sampled_from(
            [{}, {}, {"pet": 900}, {"pet": 901}, {"volume": "local-lvm:vm-900-disk-1"}, {"size": "9G"}],
        )
    )
    number = draw(st.sampled_from([{}, {}, {"vmid": 105}]))
    spec = agent_from({"kind": "hermes", "version": "0.19.0", "place": "home", "state": state, "machine": number})
    formers = draw(st.sampled_from([(OLD,), (OLD,), (LAB,), (OLD, LAB), ()]))
    beside = draw(st.booleans())
    return MachineWant(HOME, spec, "/var/lib/paddock/hermes", formers=formers, beside_others=beside)


@settings(max_examples=300, deadline=None)
@given(nodes(), wants(), st.sampled_from(["up", "down", "cycle", "forget"]))
def test_a_plan_changes_only_what_has_an_id_of_the_agent(seen: ProxmoxSeen, want: MachineWant, verb: str) -> None:
    plan = getattr(PLANNER, verb)(want, seen)
    every = {want.id, *want.formers}
    for step in plan.steps:
        _expect_own(step, seen, every if verb in ("up", "forget") else {want.id})
    for step in plan.then:  # the `up` after a `cycle`
        _expect_own(step, seen, every)


@settings(max_examples=300, deadline=None)
@given(nodes(), wants())
def test_up_creates_no_second_pet_and_no_second_machine(seen: ProxmoxSeen, want: MachineWant) -> None:
    plan = PLANNER.up(want, seen)
    actions = [step.action for step in plan.steps]
    ids = {want.id, *want.formers}
    if any(isinstance(action, CreatePet | AddVolume) for action in actions):
        assert not [c for c in seen.with_role(Role.PET) if ids & set(_owners(c))]
    if any(isinstance(action, CreateCattle) for action in actions):
        assert not [machine for each in ids for machine in seen.cattle_of(each)]
    moved = [action for action in actions if isinstance(action, RenamePet | RenameMachine)]
    assert all(action.agent == want.id and action.former in want.formers for action in moved)


def _owners(pet: LxcContainer) -> Iterator[AgentId]:
    yield from (owner for mount in pet.mounts if (owner := agent_of(mount)))


def _expect_own(step: Step, seen: ProxmoxSeen, ids: set[AgentId]) -> None:
    """Expect that the step's container is new or has one of the ids, and that its volumes are those of these ids."""
    action: Any = step.action
    container = seen.containers.get(getattr(action, "vmid", 0))
    if container is not None:
        assert container.mark, f"{step.id} of {container.name}, which has no readable mark"
        owners = set(_owners(container)) if container.has(Role.PET) else {container.mark.agent}
        unfinished = container.mark.unfinished_forget
        begun = {unfinished[0]} if unfinished else set()
        shared = {owner.project for owner in owners if owner}
        may_share = isinstance(action, AddVolume) and (not shared or shared & {"home", ""})
        assert may_share or ids & (owners | begun), f"{step.id} of {container.name}, which belongs to {owners}"
    for volume in _volumes(action, container):
        paths = [m.path for c in seen.with_role(Role.PET) for m in c.mounts if m.volume == volume]
        named = [c.mark.unfinished_forget for c in seen.with_role(Role.PET) if c.mark]
        recorded = any(each and each[0] in ids and each[1] == volume for each in named)
        assert recorded or set(paths) <= {path_in_pet(each) for each in ids}, f"{step.id} of {volume} at {paths}"


def _volumes(action: Any, container: LxcContainer | None) -> Iterator[str]:
    match action:
        case DeleteVolume(_, _, volume):
            yield volume
        case DestroyPet(_, _, volumes):
            yield from volumes
            assert container
            assert {mount.volume for mount in container.mounts if mount.key != "rootfs"} <= set(volumes)
        case CreateCattle(_, _, volume, _) if isinstance(volume, str):
            yield volume
        case GrowVolume(_, key, _) | IncludeVolume(_, key, _):
            mount = container.mount(key) if container else None
            assert mount
            yield mount.volume
        case RenamePet(_, _, _, volumes):
            yield from (str(value).partition(",")[0] for value in volumes.values())
