"""The privileges that a plan needs, so that a missing one is found before the first step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

from paddock.base.frozen import frozen
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import CACHE_VOLUME, SPARE_VOLUME, STATE_VOLUME, TEMPLATE, Params
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.observation import Mount, ProxmoxSeen, options_of
from paddock.plan.actions import Action, Ref

AUDIT: Final = "VM.Audit"
_CPU: Final = frozenset({"cores", "cpulimit", "cpuunits"})
_MEMORY: Final = frozenset({"memory", "swap"})
_NETWORK: Final = re.compile(r"net\d+|hostname|nameserver|searchdomain")
_DISK: Final = re.compile(r"rootfs|mp\d+")
# Parameters that are not configuration keys, or that need no privilege.
_UNPRIVILEGED: Final = frozenset(
    {"vmid", "newid", "full", "pool", "storage", "ostemplate", "restore", "ssh-public-keys", "unprivileged"}
)
_NEW_VOLUME: Final = re.compile(r"([^:\s]+):\d+(\.\d+)?(,|$)")

Held = Mapping[str, Mapping[str, Any]]


@frozen
class Need:
    """A privilege on a path, with the alternatives that Proxmox accepts."""

    path: str
    privilege: str
    instead: tuple[tuple[str, str], ...] = ()


def holds(held: Held, path: str, privilege: str) -> bool:
    """Whether a token holds a privilege on a path, or inherits it from the nearest listed path above."""
    if path in held:
        return privilege in held[path]  # 0 means: held here, not inherited below
    above = path
    while above != "/":
        above = above.rpartition("/")[0] or "/"
        if above in held:
            return int(held[above].get(privilege, 0)) == 1
    return False


def missing(needs: Iterable[Need], held: Held) -> list[Need]:
    """Return the needed privileges that the token does not hold."""
    return [need for need in dict.fromkeys(needs) if not _met(need, held)]


def as_lines(needs: Iterable[Need]) -> list[str]:
    """Return the privileges as text, one line per path."""
    by_path: dict[str, dict[str, None]] = {}  # two needs of one privilege may accept different others
    for need in needs:
        by_path.setdefault(need.path, {})[need.privilege] = None
    return [f"{', '.join(found)} on {path}" for path, found in by_path.items()]


def _met(need: Need, held: Held) -> bool:
    return any(holds(held, path, privilege) for path, privilege in ((need.path, need.privilege), *need.instead))


def needed(planned: Sequence[Action], node: ProxmoxSpec, seen: ProxmoxSeen) -> Iterator[Need]:
    """Yield the privileges that these actions need. On a container that they create, a privilege on its pool counts."""
    pools = {f"/vms/{vmid}": f"/pool/{pool}" for vmid, pool in _joined(planned) if vmid not in seen.containers}
    for need in _needed(planned, node, seen):
        pool = pools.get(need.path)
        yield replace(need, instead=(*need.instead, (pool, need.privilege))) if pool else need


def _joined(planned: Sequence[Action]) -> Iterator[tuple[int, str]]:
    """Yield the containers that the actions create in pools."""
    for action in planned:
        match action:
            case (
                actions.CreatePet(vmid, params)
                | actions.CreateBuilder(vmid, params)
                | actions.CreateCattle(vmid, params)
            ):
                pool = params.get("pool")
            case actions.RestoreSpare():
                vmid, pool = action.vmid, action.params.get("pool")
            case actions.CloneCattle(vmid) | actions.CloneReader(vmid):
                pool = action.clone.get("pool")
            case _:
                continue
        if pool:
            yield vmid, str(pool)


def _needed(planned: Sequence[Action], node: ProxmoxSpec, seen: ProxmoxSeen) -> Iterator[Need]:
    owners: dict[Ref, tuple[int, str]] = {}  # with the storage
    builder = None
    for action in planned:
        if not isinstance(action, actions.ProxmoxAction):
            continue  # it is performed inside a machine, over ssh
        match action:
            case actions.CreatePet(vmid, params):
                owners[STATE_VOLUME] = vmid, _storage_of_state(params)
                yield from _create(vmid, params)
            case actions.AddVolume(vmid, key, value) | actions.AddCache(vmid, key, value):
                owners[CACHE_VOLUME if isinstance(action, actions.AddCache) else STATE_VOLUME] = vmid, _storage(value)
                yield from _vm(vmid, AUDIT, "VM.Config.Options")
                yield from _keys(vmid, {key: value})
            case actions.CreateCattle(vmid, params, volume, _):
                yield from _create(vmid, params)
                yield from _mount(vmid, volume, owners)
            case actions.CreateBuilder(vmid, params):
                builder = vmid
                yield from _create(vmid, params)
            case actions.CloneCattle() | actions.CloneReader():
                template = builder if action.template == TEMPLATE else action.template
                source = seen.containers.get(template) if isinstance(template, int) else None
                root = source.mount("rootfs") if source else None
                where = action.clone.get("storage") or (root.storage if root else node.storage)
                if isinstance(template, int):
                    yield from _vm(template, AUDIT, "VM.Clone")
                yield from _vm(action.vmid, AUDIT, "VM.Allocate")
                yield Need(f"/storage/{where}", "Datastore.AllocateSpace")
                yield from _keys(action.vmid, action.params)
                yield from _mount(action.vmid, action.volume, owners)
            case actions.Configure(vmid, params):
                yield from _vm(vmid, AUDIT)
                yield from _keys(vmid, params)
            case actions.Attach(vmid, _, volume, _) | actions.AttachCache(vmid, _, volume, _):
                yield from _vm(vmid, AUDIT)
                yield from _mount(vmid, volume, owners)
            case actions.Start(vmid) | actions.Reboot(vmid) | actions.Shutdown(vmid):
                notes = isinstance(action, actions.StopToAdopt)
                yield from _vm(vmid, AUDIT, "VM.PowerMgmt", *(("VM.Config.Options",) if notes else ()))
            case actions.GrowDisk(vmid) | actions.GrowVolume(vmid):
                key = action.key if isinstance(action, actions.GrowVolume) else "rootfs"
                yield from _vm(vmid, AUDIT, "VM.Config.Disk", "VM.Config.Options")
                yield from _space(seen, vmid, key)
            case actions.Reach(vmid, clone):
                there = seen.containers.get(vmid)
                recorded = there and there.mark and there.mark.host_key and not clone
                yield from _vm(vmid, AUDIT, *(() if recorded else ("VM.Config.Options",)))
            case actions.Describe(vmid) | actions.AdoptMachine(vmid) | actions.RenameMachine(vmid):
                yield from _vm(vmid, AUDIT, "VM.Config.Options")
            case actions.Release(vmid):
                yield from _vm(vmid, AUDIT)  # without the privilege for notes, the claim stays until it expires
            case actions.Detach(vmid):
                yield from _vm(vmid, AUDIT, "VM.Config.Disk", "VM.Config.Options")
            case actions.Destroy(vmid) | actions.Seal(vmid):
                yield from _vm(vmid, AUDIT, "VM.Config.Options", "VM.Allocate")
            case actions.DeleteVolume(vmid):
                yield from _sees_users(node)
                yield from _vm(vmid, AUDIT, "VM.Config.Options", "VM.Config.Disk")
            case actions.SettlePet(vmid):
                yield from _vm(vmid, AUDIT, "VM.Config.Options")
            case actions.DestroyPet(vmid) | actions.RemovePet(vmid):
                yield from _sees_users(node)
                yield from _vm(vmid, AUDIT, "VM.Config.Options", "VM.Config.Disk", "VM.Allocate")
            case actions.AdoptPet(vmid) | actions.RenamePet(vmid) | actions.IncludeVolume(vmid):
                yield from _vm(vmid, AUDIT, "VM.Config.Options", "VM.Config.Disk")
            case actions.Reassign():
                owners[STATE_VOLUME] = action.pet, _storage(action.value)
                yield from _vm(action.source, AUDIT, "VM.Config.Disk")
                yield from _vm(action.pet, AUDIT, "VM.Config.Options", "VM.Config.Disk")
                yield Need(f"/storage/{_storage(action.value)}", "Datastore.AllocateSpace")
            case actions.BackUpPet(vmid, where) | actions.ConfirmBackup(vmid, where):
                yield from _archived(vmid, where)
                yield from _vm(vmid, AUDIT)
            case actions.RestoreSpare(vmid, owner, _, params):
                owners[SPARE_VOLUME] = vmid, _storage_of_state(params)
                yield from _archived(owner, _storage(params["ostemplate"]))
                yield from _vm(vmid, "VM.Allocate", AUDIT)
                yield from _keys(vmid, params)
            case actions.DestroySpare(vmid):
                yield from _sees_users(node)
                yield from _vm(vmid, AUDIT, "VM.Config.Options", "VM.Allocate")
            case actions.DownloadBase(where, _):
                yield Need(f"/storage/{where}", "Datastore.AllocateTemplate")
                yield Need(f"/nodes/{node.node}", "Sys.AccessNetwork", (("/", "Sys.Modify"),))
            case actions.ReachAdopted() | actions.RootWork():
                pass  # adopting needed the same privileges; where the token may not do root's work, root is asked
            case _:
                assert_never(action)


def _archived(owner: int, storage: str) -> Iterator[Need]:
    """Yield the privileges to make, read, list and delete the archives of a container on a storage."""
    yield Need(f"/vms/{owner}", "VM.Backup")
    yield Need(f"/storage/{storage}", "Datastore.AllocateSpace")


def _sees_users(node: ProxmoxSpec) -> Iterator[Need]:
    """Yield the privileges to see every container that may use a volume of a pet."""
    paths = [f"/pool/{node.pools.machines}", f"/pool/{node.pools.state}"] if node.pools else ["/vms"]
    yield from (Need(path, AUDIT) for path in paths)


def _vm(vmid: int, *privileges: str) -> Iterator[Need]:
    yield from (Need(f"/vms/{vmid}", privilege) for privilege in privileges)


def _create(vmid: int, params: Params) -> Iterator[Need]:
    yield from _vm(vmid, "VM.Allocate", AUDIT)
    archive = f"/storage/{_storage(params['ostemplate'])}"
    instead = ((archive, "Datastore.AllocateSpace"), (archive, "Datastore.Allocate"))
    yield Need(archive, "Datastore.Audit", instead)
    yield from _keys(vmid, params)


def _keys(vmid: int, params: Params) -> Iterator[Need]:
    """Yield the privileges for changing these keys; ``delete`` and ``revert`` list more keys."""
    lists = ("delete", "revert")
    listed = [key for name in lists for key in str(params.get(name, "")).split(",") if key]
    for key in (*(key for key in params if key not in lists), *listed):
        value = str(params.get(key, ""))
        if key in _UNPRIVILEGED:
            continue
        if key in _CPU:
            yield from _vm(vmid, "VM.Config.CPU")
        elif key in _MEMORY:
            yield from _vm(vmid, "VM.Config.Memory")
        elif _DISK.fullmatch(key):
            yield from _vm(vmid, "VM.Config.Disk")
            if new := _NEW_VOLUME.match(value):
                yield Need(f"/storage/{new[1]}", "Datastore.AllocateSpace")
            elif value:
                yield from _volume(vmid, value.partition(",")[0], None)
        elif _NETWORK.fullmatch(key):
            yield from _vm(vmid, "VM.Config.Network")
            yield from _bridge(value)
        elif key == "features":
            yield from _vm(vmid, "VM.Allocate")
        else:
            yield from _vm(vmid, "VM.Config.Options")


def _bridge(card: str) -> Iterator[Need]:
    words = options_of(card)
    if "bridge" in words:
        tag = f"/{words['tag']}" if "tag" in words else ""
        yield Need(f"{network.LOCAL}/{words['bridge']}{tag}", "SDN.Use")


def _storage(volume: str | int) -> str:
    return str(volume).partition(":")[0]


def _storage_of_state(params: Params) -> str:
    """Return where a new container gets its state volume; empty if it gets that later."""
    return next((_storage(params[key]) for key in params if key != "rootfs" and _DISK.fullmatch(key)), "")


def _mount(vmid: int, volume: str | Ref, owners: Mapping[Ref, tuple[int, str]]) -> Iterator[Need]:
    """Yield the privileges for mounting a volume, which an earlier step may create."""
    yield from _vm(vmid, "VM.Config.Disk")
    if isinstance(volume, Ref):
        if volume in owners:
            owner, storage = owners[volume]
            yield from _of_another(owner, storage)
    else:
        yield from _volume(vmid, volume, Mount.from_config("", volume).owner)


def _volume(vmid: int, volume: str, owner: int | None) -> Iterator[Need]:
    owner = owner or Mount.from_config("", volume).owner
    if owner in (None, vmid):
        return
    yield from _of_another(owner, _storage(volume))


def _of_another(owner: int, storage: str) -> Iterator[Need]:
    """Yield the privileges for mounting a volume that another container owns."""
    where = f"/storage/{storage}"
    everything = ((where, "Datastore.Allocate"),)
    yield Need(where, "Datastore.Audit", everything)
    yield Need(f"/vms/{owner}", "VM.Config.Disk", everything)


def _space(seen: ProxmoxSeen, vmid: int, key: str) -> Iterator[Need]:
    container = seen.containers.get(vmid)
    mount = container.mount(key) if container else None
    if mount:
        yield Need(f"/storage/{mount.storage}", "Datastore.AllocateSpace")
