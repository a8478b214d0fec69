"""Planning archives: vzdump saves the pet, and a throwaway machine reads a restored copy of it. Pure.

Nothing here changes the pet or its volumes. An archive is restored to a number of its own, the spare. Restoring over a
pet in use destroys its configuration, and restoring onto an existing volume mixes old and new files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Self

from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import Archive, MachineWant
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import SPARE_VOLUME, TEMPLATE, CannotPlan, Params
from paddock.places.proxmox.machine import plan as machines
from paddock.places.proxmox.node import network, pools
from paddock.places.proxmox.node.notes import AGAIN, Claim, Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.rename import identity
from paddock.places.proxmox.template import cloning
from paddock.plan.step import Phase, Risk, Step

_FINISHED: Final = "paddock-backup:"
_UNFINISHED: Final = "paddock-unfinished-backup:"
_VERSION: Final = "1"
_WORD: Final = re.compile(r"[A-Za-z0-9._+/-]{1,100}", re.ASCII)
_DISK: Final = re.compile(r"^(rootfs|mp\d+): (\S+)$", re.MULTILINE)
_OWNER: Final = re.compile(r"[^:]+:backup/(?:vzdump-lxc-|ct/)([1-9]\d{2,8})[-/]", re.ASCII)
_STOP_SECONDS: Final = 20


@frozen
class Notes:
    """The notes of an archive. They are short, and only the first line of notes is listed."""

    about: Mapping[str, str]  # agent, kind and version
    run: str  # the run that made it
    finished: bool = False  # the run has seen that nothing was written to the state meanwhile

    def __str__(self) -> str:
        words = {"v": _VERSION, **self.about, "run": self.run}
        known = [f"{name}={value}" for name, value in words.items() if _WORD.fullmatch(value)]
        return " ".join((_FINISHED if self.finished else _UNFINISHED, *known))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the notes of an archive; None if Paddock did not write them. Whoever may back up may edit them."""
        kind, *words = text.split()[:20] or [""]
        pairs = [word.partition("=")[::2] for word in words]
        values = dict(pairs)
        if kind not in (_FINISHED, _UNFINISHED) or len(values) != len(pairs) or values.pop("v", None) != _VERSION:
            return None
        if not {"agent", "kind", "run"} <= values.keys() or not all(map(_WORD.fullmatch, values.values())):
            return None
        return cls(values, values.pop("run"), kind == _FINISHED)


def owner_of(volume: str) -> int | None:
    """Return the number of the container that an archive is of, from its name on a directory or a backup server."""
    match = _OWNER.match(volume)
    return int(match[1]) if match else None


@frozen
class Saved:
    """The volumes in an archive, from the configuration that is saved in it."""

    root: Size
    state: Mount

    @classmethod
    def parse(cls, agent: AgentId, text: str) -> Self | None:
        """Read the saved configuration; None unless the archive has the state of the agent."""
        current = text.partition("\n[")[0]  # sections of snapshots follow
        try:
            mounts = [Mount.from_config(key, value) for key, value in _DISK.findall(current)]
        except ValueError:
            return None  # somebody else wrote it
        root = next((mount.size for mount in mounts if mount.key == "rootfs"), None)
        state = next((mount for mount in mounts if mount.path == pets.path_in_pet(agent)), None)
        if root is None or state is None or state.size is None or not is_backed_up(state):
            return None
        return cls(root, state)


def is_backed_up(mount: Mount) -> bool:
    """Whether vzdump saves a volume."""
    return mount.options.get("backup") == "1"


def saved_too(pet: LxcContainer, state: Mount) -> list[Mount]:
    """Return the other volumes that a backup of the pet would have: other agents may be writing to them."""
    return [mount for mount in pet.mounts if mount.path and is_backed_up(mount) and mount != state]


def shared_pet_notes(want: MachineWant, pet: pets.Pet) -> Iterator[str]:
    """Yield a note if the file lets Proxmox back up a pet that several agents share, which is refused."""
    if want.spec.backup is None or want.spec.backup.to.proxmox is None or pet.state is None:
        return
    if more := saved_too(pet.container, pet.state):
        yield (
            f"`paddock backup` refuses {want.agent}: a backup of pet {pet.vmid} would also have"
            f" {', '.join(mount.volume for mount in more)}; give {want.agent} a pet of its own, or back up to a folder"
            " or to restic"
        )


def save_steps(node: ProxmoxSpec, want: MachineWant, about: Mapping[str, str], seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the step that makes an archive of the pet; refuse one that would not have the state, or not only that."""
    pools.check_listed(seen)
    pools.check_inside(want, node.pools, seen)
    identity.check_renamed(want, seen)
    pet = pets.find_pet(want, seen)
    if pet is None or pet.state is None:
        raise CannotPlan(f"{want.agent} has no state yet", "run `paddock up`", code="archive.no-state")
    container, state = pet.container, pet.state
    if (claim := seen.claim_of_another(container)) is not None:
        raise CannotPlan(claim.over(container.name), AGAIN, code="archive.claimed")
    if container.lock:
        raise CannotPlan(
            f"{container.name} is locked ({container.lock})",
            "wait until the task that holds the lock has ended",
            code="archive.locked",
        )
    pets.check_stopped(container)
    if not is_backed_up(state):
        raise CannotPlan(
            f"Proxmox leaves {state.volume} out of backups of {container.name}: it has no backup=1",
            f"as root on the node: {_include(container.vmid, state)}",
            code="archive.left-out",
        )
    if more := saved_too(container, state):
        raise CannotPlan(
            f"a backup of {container.name} would also have {', '.join(mount.volume for mount in more)}, which"
            " somebody may be writing to",
            f"give {want.agent} a pet of its own, or back up to a folder or to restic",
            code="archive.shared-pet",
        )
    machines.check_single_writer(want, state.volume, pet, machines.find_cattle(want, seen), seen)
    storage = storage_of(want)
    action = actions.BackUpPet(container.vmid, storage, want.id, about)
    yield Step("pet.backup", f"back pet {container.vmid} up to {storage}", "a person asked for it", action)
    confirm = actions.ConfirmBackup(container.vmid, storage, want.id)
    reason = "nothing was written to the state meanwhile"
    yield Step("pet.confirm", "mark the backup as complete", reason, confirm, phase=Phase.PROOF)


def _include(vmid: int, state: Mount) -> str:
    kept = {name: value for name, value in state.options.items() if name not in ("volume", "backup")}
    value = ",".join((state.volume, *(f"{name}={value}" for name, value in kept.items()), "backup=1"))
    # Proxmox refuses to change a volume of a protected container.
    return f"pct set {vmid} --protection 0 && pct set {vmid} --{state.key} {value} && pct set {vmid} --protection 1"


def storage_of(want: MachineWant) -> str:
    """Return the storage that the file names for backups."""
    if want.spec.backup is None or want.spec.backup.to.proxmox is None:
        raise TypeError(f"{want.agent} has no backups by its place")
    return want.spec.backup.to.proxmox.storage


@frozen
class ReadOrder:
    """An archive to read, the numbers for its spare and its reader, and the template of the reader."""

    archive: Archive
    saved: Saved
    spare: int  # the number for the restored archive
    reader: int
    template: LxcContainer | None  # None: the one that the same plan builds


def read_steps(node: ProxmoxSpec, want: MachineWant, order: ReadOrder, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps to a running reader; the steps that build a missing template come before them."""
    storage = want.spec.state.storage or node.storage
    _check_room(storage, order.saved, seen)
    reason = "needed to read the backup"
    spare = actions.RestoreSpare(
        order.spare, owner_of(order.archive.name) or 0, want.id, _restored(node, want, order, storage)
    )
    title = f"restore {order.archive.name} to spare container {order.spare}"
    yield Step("spare.restore", title, reason, spare, needs_place_lock=True)
    source = f"template {order.template.vmid}" if order.template else "the new template"
    yield Step(
        "reader.clone",
        f"clone machine {order.reader} from {source}, to read container {order.spare}",
        reason,
        _clone(node, want, order, seen),
        needs_place_lock=True,
    )
    yield Step("reader.start", f"start machine {order.reader}", reason, actions.Start(order.reader))
    yield Step("reader.reach", f"reach machine {order.reader} over ssh", reason, actions.Reach(order.reader))


def _check_room(storage: str, saved: Saved, seen: ProxmoxSeen) -> None:
    needed = saved.root + (saved.state.size or 0)
    free = seen.capacity.storages.get(storage, needed)
    if needed > free:
        raise CannotPlan(
            f"storage {storage} needs {needed >> 30}G of free space for a copy of the backup, and has {free >> 30}G",
            "free some space there",
            code="archive.no-room",
        )


def _restored(node: ProxmoxSpec, want: MachineWant, order: ReadOrder, storage: str) -> Params:
    state = order.saved.state
    size = state.size or Size(0)
    return {
        "restore": 1,
        "ostemplate": order.archive.name,
        "hostname": f"{want.agent}-spare",
        "description": str(Mark(Role.SPARE, want.id)),
        "unprivileged": 1,
        "protection": 0,
        "onboot": 0,
        # Volumes that are not named here are not restored: a cache would only take space.
        "rootfs": f"{storage}:{order.saved.root.gib}",
        state.key: f"{storage}:{size.gib},mp={state.path}",
        **({"pool": node.pools.machines} if node.pools else {}),
    }


def _clone(node: ProxmoxSpec, want: MachineWant, order: ReadOrder, seen: ProxmoxSeen) -> actions.CloneReader:
    root = order.template.mount("rootfs") if order.template else None
    clone: dict[str, str | int] = {
        "newid": order.reader,
        "hostname": f"{want.agent}-reader",
        "description": str(Mark(Role.READER, want.id)),
        **({"pool": node.pools.machines} if node.pools else {}),
        **cloning.order(order.template, node, root.storage if root else node.storage, seen),
    }
    address = network.of_helper(want, f"{want.agent}-reader", order.reader)
    params: dict[str, str | int] = {
        "tags": "paddock",
        "onboot": 0,
        "cores": 2,
        "memory": 1024,
        # The same network as when the template was built.
        "net0": f"name=eth0,bridge={node.bridge},hwaddr={address},ip=dhcp",
    }
    source = order.template.vmid if order.template else TEMPLATE
    return actions.CloneReader(order.reader, source, clone, params, SPARE_VOLUME, want.state_path)


def readers(agent: AgentId, seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the readers that this run has made for an agent."""
    made = [(c, Claim.from_notes(c.notes)) for c in _of(agent, seen, Role.READER)]
    return [c for c, claim in made if claim and claim.holder == seen.holder]


def clear_steps(agent: AgentId, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that remove readers and spares, except those that another run is using or Proxmox is making.

    Nothing is lost with them: they are made from a template and from an archive, which stay.
    """
    for reader in _of(agent, seen, Role.READER):
        if seen.claim_of_another(reader) or reader.lock:
            continue
        reason = "it was only made to read a backup"
        if reader.running:
            stop = actions.Shutdown(reader.vmid, _STOP_SECONDS)
            yield Step("reader.stop", f"shut machine {reader.vmid} down", reason, stop)
        if any(mount.key != "rootfs" for mount in reader.mounts):
            yield Step(
                "reader.detach", f"detach the copy from machine {reader.vmid}", reason, actions.Detach(reader.vmid)
            )
        title = f"destroy machine {reader.vmid}"
        yield Step("reader.destroy", title, reason, actions.Destroy(reader.vmid), Risk.RECREATES)
    for spare in _of(agent, seen, Role.SPARE):
        if seen.claim_of_another(spare) is None and not spare.lock:
            title = f"destroy spare container {spare.vmid}"
            reason = "it is a copy of a backup, which is kept"
            yield Step("spare.destroy", title, reason, actions.DestroySpare(spare.vmid, agent), Risk.RECREATES)


def _of(agent: AgentId, seen: ProxmoxSeen, role: Role) -> list[LxcContainer]:
    return [c for c in seen.with_role(role) if c.mark and c.mark.agent == agent]
