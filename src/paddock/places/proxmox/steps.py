"""What to do on a node: pure functions from what is wanted and what is there to steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paddock.places import MachinePlan, MachineWant
from paddock.places.proxmox.actions import (
    MOUNT_KEY,
    STATE_VOLUME,
    Configure,
    CreateCattle,
    CreatePet,
    Destroy,
    Detach,
    Reach,
    Shutdown,
    Start,
)
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.seen import Container, Mount, ProxmoxSeen
from paddock.plan.step import Ref, Refusal, Risk, Step
from paddock.spec.models import ProxmoxSpec
from paddock.spec.sizes import Size

_PET_DISK: Final = Size.parse("2G")
_SHUTDOWN_SECONDS: Final = 120  # longer than any unit of ours may take to stop


class _Stop(Exception):
    """A refusal that makes everything after it moot."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, hint)


@dataclass(frozen=True)
class NodePlanner:
    """Plans for one node; the public key is what new machines are reached with."""

    node: ProxmoxSpec
    public_key: str

    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to a running machine that has its state."""
        try:
            pet = _one(want.agent, Role.PET, seen)
            cattle = _one(want.agent, Role.CATTLE, seen)
            _check_numbers(want, pet, cattle, seen)
            if pet:
                _check_pet(want, pet)
            else:
                _check_no_lost_pet(want.agent, seen)
            ids = _free_ids(seen)
            steps = list(self._pet_steps(want, pet, ids))
            volume = _state_mount(pet).volume if pet else STATE_VOLUME
            _check_single_writer(volume, pet, cattle, seen)
            if cattle is None:
                steps += self._create_cattle(want, volume, ids)
                return MachinePlan(steps)
            steps += _configure_cattle(want, cattle, volume)
            notes = [*_later(want, pet, cattle), *self._other_base(cattle)]
        except _Stop as stop:
            return MachinePlan(refusals=[stop.refusal])
        if not cattle.running:
            steps.append(_start(cattle.vmid, "it is stopped"))
            steps.append(_reach(cattle.vmid, "it starts"))
        elif cattle.address is None:
            steps.append(_reach(cattle.vmid, "it has no address yet"))
        elif not (cattle.mark and cattle.mark.host_key):
            steps.append(_reach(cattle.vmid, "its host key is not on record"))
        return MachinePlan(steps, notes=notes)

    def _pet_steps(self, want: MachineWant, pet: Container | None, ids: Iterator[int]) -> Iterator[Step]:
        if pet is None:
            vmid = want.spec.state.pet.vmid or next(ids)
            params: dict[str, str | int] = {
                "ostemplate": self.node.base.volid,
                "hostname": _pet_name(want.agent),
                "description": str(Mark(want.agent, Role.PET)),
                "tags": "paddock",
                "unprivileged": 1,
                "features": "nesting=1",  # it never runs; without, Proxmox warns about its systemd
                "protection": 1,
                "onboot": 0,
                "cores": 1,
                "memory": 256,
                "rootfs": f"{self.node.storage}:{_PET_DISK.gib}",
                MOUNT_KEY: f"{self.node.storage}:{want.spec.state.size.gib},mp={want.state_path},backup=1",
            }
            title = f"create pet {vmid} with a state volume of {want.spec.state.size}"
            yield Step("pet.create", title, "the agent has no state yet", CreatePet(vmid, params))
        elif not pet.flag("protection"):
            action = Configure(pet.vmid, {"protection": 1})
            yield Step("pet.protect", f"protect pet {pet.vmid}", "its protection is off", action)

    def _create_cattle(self, want: MachineWant, volume: str | Ref, ids: Iterator[int]) -> Iterator[Step]:
        machine = want.spec.machine
        vmid = machine.vmid or next(ids)
        params: dict[str, str | int] = {
            "ostemplate": self.node.base.volid,
            "hostname": want.agent,
            "description": str(Mark(want.agent, Role.CATTLE, base=_digest(self.node.base.volid))),
            "tags": "paddock",
            "unprivileged": 1,
            "features": "nesting=1",
            "onboot": 1,
            "cores": machine.cores,
            "memory": machine.memory.mib,
            "rootfs": f"{self.node.storage}:{machine.disk.gib}",
            "net0": f"name=eth0,bridge={self.node.bridge},hwaddr={_mac(want.agent, vmid)},ip=dhcp",
            "ssh-public-keys": self.public_key,
        }
        yield Step(
            "cattle.create",
            f"create machine {vmid} from {self.node.base.volid.rpartition('/')[2]} with the state at {want.state_path}",
            "there is no machine",
            CreateCattle(vmid, params, volume, want.state_path),
        )
        yield _start(vmid, "it is new")
        yield _reach(vmid, "it is new")

    def _other_base(self, cattle: Container) -> Iterator[str]:
        if cattle.mark and cattle.mark.base != _digest(self.node.base.volid):
            yield f"{cattle.name} was made from another base; `paddock cycle` makes it anew from {self.node.base.volid}"

    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to no machine; refused unless the state is seen to be the pet's."""
        try:
            cattle = _one(want.agent, Role.CATTLE, seen)
            if cattle is None:
                return MachinePlan()
            _check_owns_only_root_disk(cattle)
            _check_mounts_only_from(_one(want.agent, Role.PET, seen), cattle)
        except _Stop as stop:
            return MachinePlan(refusals=[stop.refusal])
        return MachinePlan(list(_down_steps(cattle)))


def _down_steps(cattle: Container) -> Iterator[Step]:
    vmid = cattle.vmid
    if cattle.running:
        action = Shutdown(vmid, _SHUTDOWN_SECONDS)
        yield Step("cattle.stop", f"shut machine {vmid} down", "it runs", action, Risk.RESTARTS)
    if any(mount.key != "rootfs" for mount in cattle.mounts):
        yield Step("cattle.detach", f"detach the state from machine {vmid}", "the state stays", Detach(vmid))
    title = f"destroy machine {vmid}"
    yield Step("cattle.destroy", title, "it owns only its root disk", Destroy(vmid), Risk.RECREATES)


def _one(agent: str, role: Role, seen: ProxmoxSeen) -> Container | None:
    found = seen.ours(agent, role)
    if len(found) > 1:
        numbers = ", ".join(str(container.vmid) for container in found)
        raise _Stop(f"several containers are marked as {role} of {agent}: {numbers}", "remove the mark of all but one")
    return found[0] if found else None


def _check_numbers(want: MachineWant, pet: Container | None, cattle: Container | None, seen: ProxmoxSeen) -> None:
    for key, asked, found in (
        ("state.pet", want.spec.state.pet.vmid, pet),
        ("machine.vmid", want.spec.machine.vmid, cattle),
    ):
        if asked is None or (found and found.vmid == asked):
            continue
        if found:
            raise _Stop(f"{found.name} is {want.agent}'s, but the file says {key}: {asked}", f"write {found.vmid}")
        if asked in seen.taken:
            raise _Stop(f"{key}: {asked} is taken, and not by {want.agent}", "choose another number, or leave it out")


def _check_pet(want: MachineWant, pet: Container) -> None:
    if pet.running:
        raise _Stop(f"{pet.name} is a pet and runs", "stop it: a pet only owns the volume")
    if pet.flag("onboot"):
        raise _Stop(f"{pet.name} is a pet and would start with the node", "set its onboot to 0")
    size = _state_mount(pet).size
    if size is not None and want.spec.state.size < size:
        raise _Stop(f"the state volume has {size}, the file says {want.spec.state.size}", "nothing shrinks")


def _check_no_lost_pet(agent: str, seen: ProxmoxSeen) -> None:
    """A pet whose mark someone removed would otherwise be replaced by one without memory."""
    for container in seen.containers.values():
        if container.config.get("hostname") == _pet_name(agent):
            raise _Stop(
                f"{container.name} looks like the pet of {agent} but has no readable mark",
                f"write this line into its notes if it is: {Mark(agent, Role.PET)}",
            )


def _pet_name(agent: str) -> str:
    return f"{agent}-pet"


def _state_mount(pet: Container) -> Mount:
    own = [mount for mount in pet.mounts if mount.key == MOUNT_KEY and mount.owner == pet.vmid]
    if not own:
        raise _Stop(f"{pet.name} is a pet without a volume of its own at {MOUNT_KEY}")
    return own[0]


def _check_single_writer(volume: str | Ref, pet: Container | None, cattle: Container | None, seen: ProxmoxSeen) -> None:
    if isinstance(volume, Ref):
        return
    for other in seen.users_of(volume):
        if other not in (pet, cattle) and (other.running or other.flag("onboot")):
            raise _Stop(
                f"{other.name} also mounts the state volume {volume}",
                "two machines must not write to one state: detach it there first",
            )


def _check_owns_only_root_disk(cattle: Container) -> None:
    for mount in cattle.mounts:
        if mount.key != "rootfs" and mount.owner == cattle.vmid:
            raise _Stop(
                f"{cattle.name} owns {mount.volume} ({mount.key}), which destroying it would destroy",
                "move that volume to another container first",
            )


def _check_mounts_only_from(pet: Container | None, cattle: Container) -> None:
    for mount in cattle.mounts:
        if mount.key != "rootfs" and (pet is None or mount.owner != pet.vmid):
            raise _Stop(
                f"{cattle.name} has {mount.volume} ({mount.key}), which its pet does not own",
                "detach it by hand if it may go",
            )


def _configure_cattle(want: MachineWant, cattle: Container, volume: str | Ref) -> Iterator[Step]:
    machine = want.spec.machine
    asked = {"cores": machine.cores, "memory": machine.memory.mib}
    other = {key: value for key, value in asked.items() if cattle.number(key) != value}
    if other:
        words = ", ".join(f"{key} {cattle.number(key)} → {value}" for key, value in other.items())
        yield Step(
            "cattle.resize", f"change machine {cattle.vmid}: {words}", "the file says so", Configure(cattle.vmid, other)
        )
    mounted = next((mount for mount in cattle.mounts if mount.key == MOUNT_KEY), None)
    if mounted is None and not cattle.running:
        params = {MOUNT_KEY: f"{volume},mp={want.state_path}"}
        title = f"attach the state to machine {cattle.vmid}"
        yield Step("cattle.attach", title, "it was detached", Configure(cattle.vmid, params))
    elif mounted is None or (mounted.volume, mounted.path) != (volume, want.state_path):
        raise _Stop(
            f"{cattle.name} does not have the state volume {volume} at {want.state_path}",
            "run `paddock cycle` to make it anew",
        )


def _later(want: MachineWant, pet: Container | None, cattle: Container) -> Iterator[str]:
    """What differs from the file and is left as it is."""
    disk = next((mount.size for mount in cattle.mounts if mount.key == "rootfs"), None)
    if disk is not None and disk != want.spec.machine.disk:
        yield f"the root disk has {disk}, the file says {want.spec.machine.disk}: `paddock cycle` makes it anew"
    size = _state_mount(pet).size if pet else None
    if size is not None and size < want.spec.state.size:
        yield f"the state volume has {size}, the file says {want.spec.state.size}: growing it is not done by `up` yet"


def _start(vmid: int, reason: str) -> Step:
    return Step("cattle.start", f"start machine {vmid}", reason, Start(vmid))


def _reach(vmid: int, reason: str) -> Step:
    return Step("cattle.reach", f"reach machine {vmid} over ssh", reason, Reach(vmid))


def _free_ids(seen: ProxmoxSeen) -> Iterator[int]:
    return (vmid for vmid in range(100, 1_000_000) if vmid not in seen.taken)


def _mac(agent: str, vmid: int) -> str:
    """A MAC that a recreated machine has again, so that DHCP gives it the address it had."""
    digest = hashlib.sha256(f"{agent}/{vmid}".encode()).hexdigest().upper()
    return f"BC:24:11:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
