"""Plans for a Proxmox node: pure functions from the wanted machine and the observation to steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Final, ParamSpec

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.place import TemplateUse
from paddock.file.models.whole import MachineSpec, ProxmoxSpec
from paddock.places.contract import Archive, Description, MachineWant, TemplateWant
from paddock.places.proxmox.actions import AttachCache, CannotPlan, CreateBuilder, DownloadBase, Reach
from paddock.places.proxmox.adopt import plan as adoption
from paddock.places.proxmox.archive import plan as archive
from paddock.places.proxmox.machine import plan as machines
from paddock.places.proxmox.machine import room
from paddock.places.proxmox.node import network as mac
from paddock.places.proxmox.node import pools
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet import cache as caches
from paddock.places.proxmox.pet import forget
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.rename import identity
from paddock.places.proxmox.root import work as root_work
from paddock.places.proxmox.safety import leftovers
from paddock.places.proxmox.template import cloning
from paddock.places.proxmox.template import plan as templates
from paddock.plan.actions import CheckRootSize, CheckStateSize
from paddock.plan.step import AdoptTarget, MachineAfter, MachinePlan, Phase, Step

_SCHEMA: Final = "1"  # raised when the same inputs would make another template

_Asked = ParamSpec("_Asked")


def _or_refusal(plan: Callable[_Asked, MachinePlan]) -> Callable[_Asked, MachinePlan]:
    """Make a planner return a plan with the refusal where it raises ``CannotPlan``."""

    @wraps(plan)
    def planned(*args: _Asked.args, **kwargs: _Asked.kwargs) -> MachinePlan:
        try:
            return plan(*args, **kwargs)
        except CannotPlan as refuse:
            return MachinePlan(refusals=[refuse.refusal])

    return planned


@frozen
class NodePlanner:
    """Plans for one node. New machines accept the public key for ssh."""

    node: ProxmoxSpec
    public_key: str

    def template(self, label: str, contents: str, machine: MachineSpec) -> TemplateWant | None:
        """Return the template for machines with these contents, named by a hash of contents, base and public key.

        The hash includes the features of root, because every clone has the features of its template.
        """
        if self.node.template is TemplateUse.NONE:
            return None
        features = root_work.root_features(machine.features)
        inputs = "\n".join((_SCHEMA, self.node.base.volid, self.public_key, contents, *features))
        return TemplateWant(hashlib.sha256(inputs.encode()).hexdigest()[:12], label)

    @_or_refusal
    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """Plan a running machine with its state attached."""
        pools.check_listed(seen)
        pools.check_inside(want, self.node.pools, seen)
        forget.check_no_unfinished_forget(want, seen)
        clear_readers, seen = leftovers.clear_readers(want, seen)
        clear_machines, seen = leftovers.clear_machines(want, seen)
        clear_pets, seen = leftovers.clear_pets(want, seen)
        former = identity.find_former(want, seen)
        if former:
            seen = former.after(want.id, seen)
        identity.check_no_namesake(want, seen)
        identity.check_not_renamed_in_the_file_alone(want, seen)
        pet = pets.find_pet(want, seen)
        cattle = machines.find_cattle(want, seen)
        if cattle is None:
            machines.check_engine(self.node, want)
            machines.check_no_newer_machine(want, seen)
            pools.check_machine_known(want, self.node.pools, seen)
        machines.check_number(want, cattle, seen)
        if pet is None or pet.state is None:
            pets.check_no_newer_pet(want, seen)
        if pet:
            pets.check_pet(want, pet, seen)
        else:
            pools.check_state_known(want, self.node.pools, seen)
            pets.check_no_lost_pet(want, cattle, seen)
        room.check_room(want, pet, cattle, seen, self.node)
        root_work.check_host_paths(want, seen)
        ids = _free_ids(want, seen)
        number = pet.vmid if pet else want.spec.state.pet.vmid or next(ids)
        download = self._download() if seen.base_missing and (pet is None or cattle is None) else []
        steps, volume = pets.pet_steps(want, pet, number, self.node)
        owner = pet.container if pet else None
        caches.check(want, owner)
        new_state = pet is None or pet.state is None
        more, cache = caches.pet_steps(want, owner, number, self.node.storage, state_is_new=new_state)
        renames = list(former.steps(want.id)) if former else []
        steps = [*clear_readers, *clear_machines, *clear_pets, *renames, *download, *steps, *more]
        machines.check_single_writer(want, volume, pet, cattle, seen)
        if cache is not None:
            machines.check_single_writer(want, cache, pet, cattle, seen)
        grow = pets.grow_step(want, pet)
        grows = [step for step in (grow, caches.grow_step(want, owner)) if step]
        made_from = self.made_from(want, seen)
        template = templates.newest(want.template, seen) if want.template else None
        if cattle is None:
            steps += grows
            vmid = want.spec.machine.vmid or next(ids)
            builder = next(ids) if want.template and template is None else None
            attach = list(caches.attach_steps(want, None, vmid, cache))
            address = mac.of_machine(want, vmid, owner)
            new = machines.NewMachine(self.node, want, vmid, volume, made_from, address, attach)
            steps += self._new_machine(new, builder, seen)
        else:
            vmid, builder = cattle.vmid, None
            attach = list(caches.attach_steps(want, cattle, vmid, cache))
            if attach:
                machines.check_unprotected(cattle, "the plan mounts a volume in it")
            address = mac.of_machine(want, vmid, owner)
            network = machines.network_change(self.node, want, cattle, address)
            stopped = bool(grows or attach or network) and cattle.running
            if stopped:
                reason = "a volume grows only while no machine has it mounted" if grows else "the plan mounts a volume"
                reason = reason if grows or attach else network or ""
                steps.append(machines.stop_step(cattle, reason))
            steps += [*grows, *attach]
            running = cattle.running and not stopped
            steps += machines.change_steps(self.node, want, cattle, volume, address, running=running)
            steps += machines.power_steps(want, cattle, templates.origin(cattle, seen), stopped=stopped)
        if cattle and machines.grows(want, cattle):
            title = f"check that the root filesystem has {want.spec.machine.disk}"
            steps.append(Step("disk.check", title, "the root disk was grown", CheckRootSize(want.spec.machine.disk)))
        if grow:
            title = f"check that the state's filesystem has {want.spec.state.size}"
            steps.append(Step("state.check", title, "the state volume was grown", CheckStateSize(want.spec.state.size)))
        notes = [
            *(pets.difference_notes(self.node, want, pet) if pet else ()),
            *(archive.shared_pet_notes(want, pet) if pet else ()),
            *(machines.difference_notes(self.node, want, cattle, made_from) if cattle else ()),
        ]
        notes += caches.difference_notes(want, owner)
        notes += room.network_notes(want, seen, self.node)
        if cattle is None and want.template:
            notes += cloning.notes(want.spec.machine.storage or self.node.storage, seen)
        used = [step.action.key for step in attach if isinstance(step.action, AttachCache)]
        steps += self._root_steps(want, cattle, vmid, template, builder, used)
        reached = any(isinstance(step.action, Reach) for step in steps)  # which removes the claim of a machine
        steps += leftovers.release([owner, None if reached else cattle, template], seen)
        after = MachineAfter(
            preinstalled=_preinstalled(want, cattle),
            adopted_state=pet is not None and pets.holds_adopted_state(want, pet.container),
            new_state=new_state,
            new_engine_data=cattle is not None and bool(attach),
        )
        return MachinePlan(steps, notes=notes, after=after)

    def _root_steps(
        self,
        want: MachineWant,
        cattle: LxcContainer | None,
        vmid: int,
        template: LxcContainer | None,
        builder: int | None,
        used: Collection[str],
    ) -> list[Step]:
        """Return the steps for the work of root, which come after the machine runs."""
        work = root_work.needed_work(want, cattle, vmid, template, used)
        if work is None:
            return []
        if work.features:
            flags = root_work.root_features(want.spec.machine.features)
            lacks = template.vmid if template and not root_work.has_features(template, flags) else None
            work = replace(work, template=builder or lacks)
        return [replace(step, phase=Phase.MANUAL) for step in machines.root_steps(self.node, work, cattle)]

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
        return [Step("base.download", title, "the node does not have the archive", action, needs_place_lock=True)]

    def made_from(self, want: MachineWant, seen: ProxmoxSeen) -> str:
        """Return the made-from value for the mark of a machine that is created now."""
        if want.template is None:
            return hashlib.sha256(self.node.base.volid.encode()).hexdigest()[:12]
        template = templates.newest(want.template, seen)
        epoch = template.mark.epoch if template and template.mark else None
        return templates.name_of(want.template, epoch or 1)

    def _new_machine(self, new: machines.NewMachine, builder: int | None, seen: ProxmoxSeen) -> Iterator[Step]:
        if new.want.template is None:
            yield from machines.create_steps(new, self.public_key)
            return
        if builder is not None:
            yield from self.build(new.want, seen, builder, epoch=1)
        yield from machines.clone_steps(new, templates.newest(new.want.template, seen), seen)

    def build(self, want: MachineWant, seen: ProxmoxSeen, vmid: int, *, epoch: int) -> list[Step]:
        """Return the steps to a new template."""
        if want.template is None:
            return []
        cloning.check_templates(self.node, seen)
        address = mac.of_helper(want, want.template.id, vmid)
        return templates.build_steps(
            want.template, vmid, seen, self.node, epoch=epoch, key=self.public_key, mac=address
        )

    @_or_refusal
    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """Plan to destroy the machine; refuse unless a pet owns the state."""
        pools.check_listed(seen)
        pools.check_inside(want, self.node.pools, seen)
        identity.check_renamed(want, seen)
        readers, seen = leftovers.clear_readers(want, seen)
        clear, seen = leftovers.clear_machines(want, seen)
        clear = [*readers, *clear]
        cattle = machines.find_cattle(want, seen)
        if cattle is None:
            pools.check_machine_known(want, self.node.pools, seen)
            machines.check_is_down(want, seen)
            return MachinePlan(clear)
        steps = list(machines.down_steps(cattle, seen))
        return MachinePlan([*clear, *steps], notes=list(self._left_behind(want, cattle, seen)))

    @_or_refusal
    def cycle(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """Plan to destroy the machine; refused if no machine could be created afterwards.

        A missing template is built and a missing base downloaded first, while the machine still runs.
        """
        plan = self.down(want, seen)
        if plan.refusals:
            return plan
        build = self._missing_source(want, seen)
        taken = {step.action.vmid for step in build if isinstance(step.action, CreateBuilder)}
        again = self.up(want, replace(left := seen.without(seen.cattle_of(want.id)), taken=left.taken | taken))
        then = [step for step in again.steps if step.id not in {each.id for each in build}]
        return replace(plan, steps=[*build, *plan.steps], refusals=again.refusals, then=then)

    def _missing_source(self, want: MachineWant, seen: ProxmoxSeen) -> list[Step]:
        """Return the steps to a missing template or base archive, which a new machine is made from."""
        download = self._download() if seen.base_missing else []
        if want.template is None or templates.newest(want.template, seen):
            return download
        return [*download, *self.build(want, seen, next(_free_ids(want, seen)), epoch=1)]

    def _left_behind(self, want: MachineWant, cattle: LxcContainer, seen: ProxmoxSeen) -> Iterator[str]:
        """Yield notes about directories that are kept on the node, and work that root must repeat for a new machine."""
        hosts = [mount.volume for mount in cattle.mounts if mount.is_bind]
        if hosts:
            yield f"these directories of the node are kept: {', '.join(hosts)}"
        template = templates.newest(want.template, seen) if want.template else None
        flags = root_work.root_features(want.spec.machine.features)
        again = [entry.host for entry in want.spec.mounts]
        again += [] if template and root_work.has_features(template, flags) else flags
        if again and not self.node.ssh.root:
            yield f"a new machine needs root in the node's shell again for {', '.join(again)}, which no token can add"

    @_or_refusal
    def forget(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """Plan to delete the state."""
        pools.check_listed(seen)
        pools.check_inside(want, self.node.pools, seen)
        want = identity.as_forgotten(want, seen)
        identity.check_renamed(want, seen)
        machines.check_no_machine(want, seen)
        pools.check_machine_known(want, self.node.pools, seen)
        clear, seen = leftovers.clear_readers(want, seen)
        owner = _owner(want, seen)
        if owner is None:
            pools.check_state_known(want, self.node.pools, seen)
            if (lost := pets.lost_pet(want, seen)) is not None:
                raise pets.lost_pet_refusal(want, lost)
        return MachinePlan([*clear, *forget.forget_steps(want, owner, seen)])

    def describe(self, agent: AgentId, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
        """Describe the adopt target with the keys of the file."""
        return adoption.describe(self.node, agent, target, seen)

    @_or_refusal
    def adopt(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> MachinePlan:
        """Plan to adopt the target."""
        former = identity.find_former(want, seen)
        if former:
            seen = former.after(want.id, seen)
        left_out = self.describe(want.id, target, seen).left_out
        found = adoption.plan(self.node, want, target, seen, _free_ids(want, seen), left_out)
        if former:
            found = replace(found, steps=[*former.steps(want.id), *found.steps])
        makes = any(step.id == "pet.create" for step in found.steps)
        download = self._download() if makes and seen.base_missing else []
        release = leftovers.release([*pets.pets_for(want.id, seen), *seen.machines_of(want.id)], seen)
        return replace(found, steps=[*download, *found.steps, *release])

    @_or_refusal
    def build_template(self, want: MachineWant, seen: ProxmoxSeen, *, rebuild: bool) -> MachinePlan:
        """Plan to build the template if it is missing, or again if ``rebuild``."""
        pools.check_listed(seen)
        newest = templates.newest(want.template, seen) if want.template else None
        if want.template is None or (newest and not rebuild):
            return MachinePlan(list(leftovers.release([newest], seen)))
        epoch = (newest.mark.epoch or 0) + 1 if newest and newest.mark else 1
        return MachinePlan(self.build(want, seen, next(_free_ids(want, seen)), epoch=epoch))

    @_or_refusal
    def save(self, want: MachineWant, about: Mapping[str, str], seen: ProxmoxSeen) -> MachinePlan:
        """Plan an archive of the pet."""
        return MachinePlan(list(archive.save_steps(self.node, want, about, seen)))

    @_or_refusal
    def read(self, want: MachineWant, of: Archive, saved: archive.Saved, seen: ProxmoxSeen) -> MachinePlan:
        """Plan a reader of an archive."""
        pools.check_listed(seen)
        clear, seen = leftovers.clear_readers(want, seen)
        ids = _free_ids(want, seen)
        template = templates.newest(want.template, seen) if want.template else None
        order = archive.ReadOrder(of, saved, next(ids), next(ids), template)
        build = [] if template else self.build(want, seen, next(ids), epoch=1)
        return MachinePlan([*clear, *build, *archive.read_steps(self.node, want, order, seen)])

    def clear_readers(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        """Plan to remove the readers of this run and of interrupted ones."""
        return MachinePlan(list(archive.clear_steps(want.id, seen)))


def _owner(want: MachineWant, seen: ProxmoxSeen) -> pets.Pet | None:
    """Return the pet that has the agent's state, even if the file now names another one."""
    owners = pets.owners_of_state(want, seen)
    if len(owners) > 1:
        raise CannotPlan(
            f"several pets have a volume of {want.agent}: {', '.join(str(c.vmid) for c in owners)}",
            code="forget.several-pets",
        )
    return pets.Pet(owners[0], pets.state_in(want, owners[0])) if owners else None


def _preinstalled(want: MachineWant, cattle: LxcContainer | None) -> bool:
    if want.template is None or cattle is None:
        return want.template is not None
    made_from = cattle.mark.made_from if cattle.mark else None
    return (made_from or "").partition(".")[0] == want.template.id


def _free_ids(want: MachineWant, seen: ProxmoxSeen) -> Iterator[int]:
    asked = {want.spec.machine.vmid, want.spec.state.pet.vmid}
    return (vmid for vmid in range(100, 1_000_000) if vmid not in seen.taken and vmid not in asked)
