"""The privileges that an API token needs, by path, and root's lines that grant them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import one_line
from paddock.file.models.place import PoolsSpec
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.access.privileges import Held, Need, holds
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node import network

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
# pool without Pool.Audit, against its documentation; it is granted in case another version follows the documentation.
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
_LISTED: Final = ("/storage", network.TOP)


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
    zones: network.Zones = network.NONE,
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
    found += [Grant(network.path(bridge, zones), "PaddockNetwork", DAILY) for bridge in sorted({node.bridge, *bridges})]
    found += [grant for grant in guests if grant.work == SETUP]
    if node.base.url is not None:
        found += [
            Grant(f"/storage/{base}", "PaddockDownload", SETUP),
            Grant(f"/nodes/{node.node}", "PaddockNode", SETUP),
        ]
    return found


def looking() -> list[Grant]:
    """Return the roles that let a token see storages, base archives and bridges, before any is chosen."""
    return [Grant(path, "PaddockLook", SETUP) for path in _LISTED]


def looking_at_vnets() -> Grant:
    """Return the role that lets a token see the SDN vnets, and so the zone of a name."""
    return Grant(network.TOP, "PaddockLook", DAILY)


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

    A token with privilege separation has only the privileges that both have.
    """
    user = token.partition("!")[0]
    return [f"pveum acl modify {each.path} --users {user} --tokens '{token}' --roles {each.role}" for each in wanted]


def _role(name: str) -> str:
    """Return the command that creates a role, or updates an existing one."""
    privileges = f"{name} --privs '{' '.join(_ROLES[name])}'"
    return f"pveum role add {privileges} || pveum role modify {privileges}"


_TOKEN_ID: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z][A-Za-z0-9._-]*)!([A-Za-z][A-Za-z0-9._-]+)")
_VALUE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # Proxmox makes UUIDs
_WORDS: Final = "--comment 'runs agents with Paddock'"


def user_lines(token_id: str) -> list[str]:
    """Return the lines that create the user, the token, the pools and the roles, and let the token look.

    The token may then run agents in the pools, and read the names of storages, archives and bridges. The lines may be
    pasted twice.
    """
    (user, name), pools = _parts(token_id), PoolsSpec()
    wanted = [*in_pools(pools), *looking()]
    again = f"If the token exists and its secret is lost: pveum user token remove {user} {name}; then paste all again."
    return [
        f"pveum user add {user} {_WORDS} || pveum user modify {user} {_WORDS}",
        *pool_commands((pools.machines, pools.state)),
        *role_commands(wanted),
        f"pveum user token add {user} {name} --privsep 1 || echo '{again}'",
        *acl_commands(wanted, token_id),
    ]


def choice_lines(
    token_id: str, spec: ProxmoxSpec, held: Held | None = None, zones: network.Zones = network.NONE
) -> list[str]:
    """Return the lines that let the token use the storages and the bridge of the file, and create the first pet.

    ``held`` are the privileges that the token holds already. If nothing is missing, there are no lines. ``zones`` are
    those of the SDN vnets.
    """
    _parts(token_id)
    wanted = grants(spec, (), (), (), zones=zones)
    lacking = {
        grant.path for grant in wanted for each in grant.privileges if held is None or not holds(held, grant.path, each)
    }
    # A role on a path replaces the roles that it inherits, so a path gets all of its roles or none.
    chosen = [grant for grant in wanted if grant.path in lacking]
    return [*role_commands(chosen), *acl_commands(chosen, token_id)]


def held_by(client: Client) -> Held:
    """Return the privileges of the client's token, by path."""
    held: Held = client.get("/access/permissions")
    return held


def token_from(token_id: str, pasted: str) -> Secret:
    """Return the token in the form that the API reads, from what a person pasted: its secret, or the whole token."""
    _parts(token_id)
    text = pasted.strip().strip("'\"│| ").removeprefix(f"{token_id}=")
    if not _VALUE.fullmatch(text.lower()):
        hint = "paste the value that `pveum user token add` printed, like 12345678-1234-1234-1234-123456789abc"
        raise BadInput(f"this is not the secret of the token {token_id}", hint=hint)
    return Secret(f"{token_id}={text.lower()}")


def _parts(token_id: str) -> tuple[str, str]:
    found = _TOKEN_ID.fullmatch(token_id)
    if found is None:
        hint = "write user@realm!name, like paddock@pve!deploy"
        raise BadInput(f"{one_line(token_id, 100)} is not the name of an API token", hint=hint)
    return found[1], found[2]
