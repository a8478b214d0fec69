"""What to do on a node: pure functions from what is wanted and what is there to steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from paddock.places import AdoptWish, MachinePlan, MachineWant, Portrait, TemplateWant
from paddock.places.proxmox import adopt as adoption
from paddock.places.proxmox import cattle as machines
from paddock.places.proxmox import pet as pets
from paddock.places.proxmox import template as templates
from paddock.places.proxmox.actions import DownloadBase
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.refuse import Refuse
from paddock.places.proxmox.seen import Container, ProxmoxSeen
from paddock.plan.step import CheckStateSize, Ref, Step
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import TemplateUse

_SCHEMA: Final = "1"  # raised when the same inputs would make another template


@dataclass(frozen=True)
class NodePlanner:
    """Plans for one node; the public key is what new machines are reached with."""

    node: ProxmoxSpec
    public_key: str

    def template(self, label: str, contents: str) -> TemplateWant | None:
        """The template for machines with these contents: named by them, the base, and the key it lets in."""
        if self.node.template is TemplateUse.NONE:
            return None
        inputs = "\n".join((_SCHEMA, self.node.base.volid, self.public_key, contents))
        return TemplateWant(hashlib.sha256(inputs.encode()).hexdigest()[:12], label)

    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to a running machine that has its state."""
        try:
            return self._up(want, seen)
        except Refuse as refuse:
            return MachinePlan(refusals=[refuse.refusal])

    def _up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        pets.check_not_half_forgotten(want, seen)
        pet = pets.find_pet(want, seen)
        cattle = machines.find_cattle(want, seen)
        machines.check_number(want, cattle, seen)
        if pet:
            pets.check_pet(want, pet, seen)
        else:
            pets.check_no_lost_pet(want, cattle, seen)
        self._check_room(want, pet, cattle is None, seen)
        ids = _free_ids(want, seen)
        number = pet.vmid if pet else want.spec.state.pet.vmid or next(ids)
        download = self._download() if seen.base_missing and (pet is None or cattle is None) else []
        steps, volume = pets.pet_steps(want, pet, number, base=self.node.base.volid, storage=self.node.storage)
        steps = [*download, *steps]
        machines.check_single_writer(volume, pet, cattle, seen)
        grow = pets.grow_step(want, pet)
        made_from = self.made_from(want, seen)
        if cattle is None:
            steps += [grow] if grow else []
            steps += self._new_machine(want, seen, volume, made_from, ids)
        else:
            if grow and cattle.running:
                steps.append(machines.stop_step(cattle, "the state grows only while nothing has it mounted"))
            steps += [grow] if grow else []
            stopped = grow is not None and cattle.running
            running = cattle.running and not stopped
            steps += machines.change_steps(self.node, want, cattle, volume, running=running)
            steps += machines.power_steps(want, cattle, templates.origin(cattle, seen), stopped=stopped)
        if grow:
            title = f"see that the state's filesystem has {want.spec.state.size}"
            steps.append(Step("state.check", title, "it was grown", CheckStateSize(want.spec.state.size)))
        notes = [*(pets.drift(want, pet) if pet else ()), *(machines.drift(want, cattle, made_from) if cattle else ())]
        adopted = pet is not None and pets.adopts(want, pet.container)
        return MachinePlan(steps, notes=notes, furnished=_furnished(want, cattle), adopted=adopted)

    def _download(self) -> list[Step]:
        base = self.node.base
        algorithm = "sha512" if base.sha512 else "sha256"
        params: dict[str, str | int] = {
            "content": "vztmpl",
            "filename": base.volid.rpartition("/")[2],
            "url": str(base.url),
            "checksum": base.sha512 or base.sha256 or "",
            "checksum-algorithm": algorithm,
        }
        title = f"download {params['filename']} to {base.storage}"
        action = DownloadBase(base.storage, params)
        return [Step("base.download", title, "the node does not have it", action, alone=True)]

    def made_from(self, want: MachineWant, seen: ProxmoxSeen) -> str:
        """What a machine made today would carry in its mark."""
        if want.template is None:
            return hashlib.sha256(self.node.base.volid.encode()).hexdigest()[:12]
        template = templates.newest(want.template, seen)
        epoch = template.mark.epoch if template and template.mark else None
        return templates.name_of(want.template, epoch or 1)

    def _new_machine(
        self, want: MachineWant, seen: ProxmoxSeen, volume: str | Ref, made_from: str, ids: Iterator[int]
    ) -> Iterator[Step]:
        vmid = want.spec.machine.vmid or next(ids)
        if want.template is None:
            yield from machines.create_steps(self.node, want, vmid, volume, made_from, self.public_key)
            return
        template = templates.newest(want.template, seen)
        if template is None:
            yield from self.build(want, seen, next(ids), epoch=1)
        yield from machines.clone_steps(self.node, want, vmid, volume, made_from, template)

    def build(self, want: MachineWant, seen: ProxmoxSeen, vmid: int, *, epoch: int) -> list[Step]:
        """The steps to a new template."""
        if want.template is None:
            return []
        node = self.node
        return templates.build_steps(
            want.template,
            vmid,
            seen,
            epoch=epoch,
            base=node.base.volid,
            storage=node.storage,
            bridge=node.bridge,
            key=self.public_key,
        )

    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to no machine; refused unless the state is seen to be the pet's."""
        try:
            cattle = machines.find_cattle(want, seen)
            if cattle is None:
                return MachinePlan()
            return MachinePlan(list(machines.down_steps(cattle, seen)))
        except Refuse as refuse:
            return MachinePlan(refusals=[refuse.refusal])

    def forget(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to no state."""
        try:
            machines.check_gone(want, seen)
            return MachinePlan(list(pets.forget_steps(want, _owner(want, seen), seen)))
        except Refuse as refuse:
            return MachinePlan(refusals=[refuse.refusal])

    def portray(self, agent: str, wish: AdoptWish, seen: ProxmoxSeen) -> Portrait:
        """What the wish is about, as the file would say it."""
        return adoption.portray(self.node, agent, wish, seen)

    def adopt(self, want: MachineWant, wish: AdoptWish, seen: ProxmoxSeen) -> MachinePlan:
        """The steps to have it in the file's care."""
        left_out = self.portray(want.agent, wish, seen).left_out
        try:
            found = adoption.plan(self.node, want, wish, seen, _free_ids(want, seen), left_out)
        except Refuse as refuse:
            return MachinePlan(refusals=[refuse.refusal])
        makes = any(step.id == "pet.create" for step in found.steps)
        return replace(found, steps=[*self._download(), *found.steps]) if makes and seen.base_missing else found

    def rebuild(self, want: MachineWant, seen: ProxmoxSeen, *, anew: bool) -> MachinePlan:
        """The steps to the template, if it is missing or wanted anew."""
        try:
            return self._rebuild(want, seen, anew=anew)
        except Refuse as refuse:
            return MachinePlan(refusals=[refuse.refusal])

    def _rebuild(self, want: MachineWant, seen: ProxmoxSeen, *, anew: bool) -> MachinePlan:
        newest = templates.newest(want.template, seen) if want.template else None
        if want.template is None or (newest and not anew):
            return MachinePlan()
        epoch = (newest.mark.epoch or 0) + 1 if newest and newest.mark else 1
        return MachinePlan(self.build(want, seen, next(_free_ids(want, seen)), epoch=epoch))

    def _check_room(self, want: MachineWant, pet: pets.Pet | None, new: bool, seen: ProxmoxSeen) -> None:
        memory, disk, state = want.spec.machine.memory, want.spec.machine.disk, want.spec.state.size
        if seen.room.memory is not None and memory > seen.room.memory:
            has = f"the node has {seen.room.memory >> 20}M"
            raise Refuse(f"the machine wants {memory} of memory, {has}", "write a smaller machine.memory")
        there = (pet.state.size or state) if pet and pet.state else 0
        needed = {name: 0 for name in (want.spec.machine.storage, want.spec.state.storage, self.node.storage) if name}
        needed[want.spec.machine.storage or self.node.storage] += disk if new else 0
        needed[want.spec.state.storage or self.node.storage] += max(state - there, 0)
        for storage, size in needed.items():
            free = seen.room.storages.get(storage, size)
            if size > free:
                raise Refuse(
                    f"{size >> 30}G are needed on {storage}, {free >> 30}G are free",
                    "free some space, or write smaller sizes",
                )


def _owner(want: MachineWant, seen: ProxmoxSeen) -> pets.Pet | None:
    """The pet, whatever the file says about it today."""
    owners = [c for c in seen.with_role(Role.PET) if pets.state_in(want, c)]
    if len(owners) > 1:
        raise Refuse(f"several pets have a volume of {want.agent}: {', '.join(str(c.vmid) for c in owners)}")
    return pets.Pet(owners[0], pets.state_in(want, owners[0])) if owners else None


def _furnished(want: MachineWant, cattle: Container | None) -> bool:
    if want.template is None or cattle is None:
        return want.template is not None
    made_from = cattle.mark.made_from if cattle.mark else None
    return (made_from or "").partition(".")[0] == want.template.id


def _free_ids(want: MachineWant, seen: ProxmoxSeen) -> Iterator[int]:
    asked = {want.spec.machine.vmid, want.spec.state.pet.vmid}
    return (vmid for vmid in range(100, 1_000_000) if vmid not in seen.taken and vmid not in asked)
