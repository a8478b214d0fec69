"""The privileges that an API token needs, by path, and the commands that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from paddock.spec.models import ProxmoxSpec

DAILY: Final = "daily"  # up, down, cycle and status of agents whose pet and template exist
SETUP: Final = "setup"  # create and adopt pets, grow volumes, build templates, download the base archive, forget

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
_ROLES: Final = {
    "PaddockMachine": _MACHINE,
    # A role on a deeper path replaces the one above it, so this role restricts the token on a pet.
    "PaddockPet": ("VM.Audit", "VM.Config.Disk"),
    "PaddockPetSetup": tuple(each for each in _MACHINE if each not in ("VM.Clone", "VM.PowerMgmt")),
    "PaddockStorage": ("Datastore.AllocateSpace", "Datastore.Audit"),
    "PaddockBase": ("Datastore.Audit",),
    "PaddockNetwork": ("SDN.Use",),
    "PaddockDownload": ("Datastore.AllocateTemplate", "Datastore.Audit"),
    "PaddockNode": ("Sys.AccessNetwork",),
}


@dataclass(frozen=True)
class Grant:
    """A role on a path, and the kind of work that needs it."""

    path: str
    role: str
    work: str

    @property
    def privileges(self) -> tuple[str, ...]:
        return _ROLES[self.role]


def grants(node: ProxmoxSpec, pets: Iterable[int], storages: Iterable[str], bridges: Iterable[str]) -> list[Grant]:
    """Return the roles that the agents of a file need on this node, daily work first."""
    base = node.base.volid.partition(":")[0]
    found = [Grant("/vms", "PaddockMachine", DAILY)]
    found += [Grant(f"/vms/{pet}", "PaddockPet", DAILY) for pet in sorted(set(pets))]
    found += [Grant(f"/storage/{storage}", "PaddockStorage", DAILY) for storage in sorted({node.storage, *storages})]
    found += [Grant(f"/storage/{base}", "PaddockBase", DAILY)] if base not in {node.storage, *storages} else []
    found += [
        Grant(f"/sdn/zones/localnetwork/{bridge}", "PaddockNetwork", DAILY)
        for bridge in sorted({node.bridge, *bridges})
    ]
    found += [Grant(f"/vms/{pet}", "PaddockPetSetup", SETUP) for pet in sorted(set(pets))]
    if node.base.url is not None:
        found += [
            Grant(f"/storage/{base}", "PaddockDownload", SETUP),
            Grant(f"/nodes/{node.node}", "PaddockNode", SETUP),
        ]
    return found


def missing(wanted: Iterable[Grant], held: Mapping[str, Iterable[str]]) -> Iterator[tuple[Grant, str]]:
    """Yield each privilege that a grant needs and the token does not hold on its path."""
    for grant in wanted:
        for privilege in grant.privileges:
            if privilege not in held.get(grant.path, ()):
                yield grant, privilege


def commands(work: str, wanted: Iterable[Grant], token: str) -> list[str]:
    """Return the commands for root on the node that let a token and its user do that work."""
    chosen = [grant for grant in wanted if grant.work == work]
    roles = dict.fromkeys(grant.role for grant in chosen)
    user = token.partition("!")[0]
    return [
        *(_role(role) for role in roles),
        *(f"pveum acl modify {grant.path} --users {user} --tokens '{token}' --roles {grant.role}" for grant in chosen),
    ]


def _role(name: str) -> str:
    """Return the command that creates a role, or updates an existing one."""
    privileges = f"{name} --privs '{' '.join(_ROLES[name])}'"
    return f"pveum role add {privileges} || pveum role modify {privileges}"
