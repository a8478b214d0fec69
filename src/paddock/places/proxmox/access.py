"""The privileges that an API token needs, by path, and the commands that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from paddock.frozen import frozen
from paddock.places.proxmox import sdn
from paddock.places.proxmox.privileges import Held, Need
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import PoolsSpec

DAILY: Final = "daily"  # up, down, cycle and status of agents whose pet exists
SETUP: Final = "setup"  # create, adopt, grow and forget pets; download the base archive

_MACHINE: Final = (
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CPU",
    "VM.Config.Disk",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
)
_PET_SETUP: Final = tuple(each for each in _MACHINE if each not in ("VM.Clone", "VM.PowerMgmt"))
# tests/data/privileges.yaml names a verb that fails for each of these without it. Proxmox VE 9 lists the members of a
# pool without Pool.Audit, against its documentation; it is granted because another version may do what is documented.
_ROLES: Final = {
    "PaddockMachine": ("Pool.Audit", *_MACHINE),
    "PaddockPet": ("Pool.Audit", "VM.Audit", "VM.Config.Disk"),
    "PaddockPetSetup": ("Pool.Audit", *_PET_SETUP),
    "PaddockBackup": ("VM.Backup",),
    "PaddockStorage": ("Datastore.AllocateSpace", "Datastore.Audit"),
    "PaddockBase": ("Datastore.Audit",),
    "PaddockNetwork": ("SDN.Use",),
    "PaddockDownload": ("Datastore.AllocateTemplate",),
    "PaddockNode": ("Sys.AccessNetwork",),
    "PaddockLook": ("Datastore.Audit", "SDN.Audit"),
}
# Where storages and bridges are listed. Roles on these paths hold for everything below, and let a token read only.
_LISTED: Final = ("/storage", sdn.TOP)


@frozen
class Grant:
    """A role on a path, and the kind of work that needs it."""

    path: str
    role: str
    work: str

    @property
    def privileges(self) -> tuple[str, ...]:
        return _ROLES[self.role]


def grants(
    node: ProxmoxSpec,
    pets: Iterable[int],
    storages: Iterable[str],
    bridges: Iterable[str],
    archives: Iterable[str] = (),
    zones: sdn.Zones = sdn.NONE,
) -> list[Grant]:
    """Return the roles that the agents of a file need on this node, daily work first.

    ``pets`` matter only without pools. ``archives`` are the storages that pets are backed up to. ``zones`` are those of
    the bridges that are SDN vnets.
    """
    base = node.base.volid.partition(":")[0]
    pets, archives = sorted(set(pets)), sorted(set(archives))
    storages = {*storages, *archives}
    guests = in_pools(node.pools) if node.pools else _of_numbers(pets)
    found = [grant for grant in guests if grant.work == DAILY]
    owners = [f"/pool/{node.pools.state}"] if node.pools else [f"/vms/{pet}" for pet in pets]
    found += [Grant(path, "PaddockBackup", DAILY) for path in owners] if archives else []
    found += [Grant(f"/storage/{storage}", "PaddockStorage", DAILY) for storage in sorted({node.storage, *storages})]
    found += [Grant(f"/storage/{base}", "PaddockBase", DAILY)] if base not in {node.storage, *storages} else []
    found += [Grant(sdn.path(bridge, zones), "PaddockNetwork", DAILY) for bridge in sorted({node.bridge, *bridges})]
    found += [grant for grant in guests if grant.work == SETUP]
    if node.base.url is not None:
        found += [
            Grant(f"/storage/{base}", "PaddockDownload", SETUP),
            Grant(f"/nodes/{node.node}", "PaddockNode", SETUP),
        ]
    return found


def looking() -> list[Grant]:
    """Return the roles with which a token sees storages, base archives and bridges, before any is chosen."""
    return [Grant(path, "PaddockLook", SETUP) for path in _LISTED]


def looking_at_vnets() -> Grant:
    """Return the role with which a token sees the SDN vnets, and so the zone of a name."""
    return Grant(sdn.TOP, "PaddockLook", DAILY)


def in_pools(pools: PoolsSpec) -> list[Grant]:
    """Return the roles that a token needs on the pools, daily work first."""
    # Roles on a pool are added to those on its members. In one pool, the role for machines would hold for pets too.
    return [
        Grant(f"/pool/{pools.machines}", "PaddockMachine", DAILY),
        Grant(f"/pool/{pools.state}", "PaddockPet", DAILY),
        Grant(f"/pool/{pools.state}", "PaddockPetSetup", SETUP),
    ]


def _of_numbers(pets: Sequence[int]) -> list[Grant]:
    # A role on a deeper path replaces the one above it, so the role on a pet restricts the token there.
    return [
        Grant("/vms", "PaddockMachine", DAILY),
        *(Grant(f"/vms/{pet}", "PaddockPet", DAILY) for pet in pets),
        *(Grant(f"/vms/{pet}", "PaddockPetSetup", SETUP) for pet in pets),
    ]


def missing(wanted: Iterable[Grant], held: Mapping[str, Iterable[str]]) -> Iterator[tuple[Grant, str]]:
    """Yield each privilege that a grant needs and the token does not hold on its path."""
    for grant in wanted:
        for privilege in grant.privileges:
            if privilege not in held.get(grant.path, ()):
                yield grant, privilege


def excess(wanted: Sequence[Grant], held: Held, members: Iterable[int]) -> list[Need]:
    """Return the privileges that a token holds and does not need; reading is not counted.

    Roles on a pool appear on its ``members`` too.
    """
    needed: dict[str, set[str]] = {}
    for grant in wanted:
        needed.setdefault(grant.path, set()).update(grant.privileges)
    own = {f"/vms/{vmid}" for vmid in members}
    more = {
        path: {each for each in held[path] if not each.endswith(".Audit")} - needed.get(path, set())
        for path in sorted(held)
        if path not in own
    }
    return [
        Need(path, privilege)
        for path, privileges in more.items()
        for privilege in sorted(privileges)
        if not any(privilege in more.get(above, ()) for above in _above(path))
    ]


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def pool_commands(pools: Iterable[str]) -> list[str]:
    """Return root's commands that create pools, or leave existing ones as they are."""
    words = "--comment 'containers of Paddock'"
    return [f"pveum pool add {pool} {words} || pveum pool modify {pool} {words}" for pool in pools]


def commands(work: str, wanted: Iterable[Grant], token: str) -> list[str]:
    """Return the commands for root on the node that let a token and its user do that work."""
    chosen = [grant for grant in wanted if grant.work == work]
    return [*role_commands(chosen), *acl_commands(chosen, token)]


def role_commands(wanted: Iterable[Grant]) -> list[str]:
    """Return root's commands that create the roles, or update existing ones."""
    return [_role(role) for role in dict.fromkeys(grant.role for grant in wanted)]


def acl_commands(wanted: Iterable[Grant], token: str) -> list[str]:
    """Return root's commands that give the roles to a token and to its user.

    A token with privilege separation may do what both may.
    """
    user = token.partition("!")[0]
    return [f"pveum acl modify {each.path} --users {user} --tokens '{token}' --roles {each.role}" for each in wanted]


def _role(name: str) -> str:
    """Return the command that creates a role, or updates an existing one."""
    privileges = f"{name} --privs '{' '.join(_ROLES[name])}'"
    return f"pveum role add {privileges} || pveum role modify {privileges}"
