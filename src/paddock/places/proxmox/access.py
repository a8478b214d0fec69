"""What a token needs: privileges by path and verb, and the commands that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from paddock.spec.models import ProxmoxSpec

DAILY: Final = "daily"  # up, down, cycle, status of agents that have their pet and template
SETUP: Final = "setup"  # makes and adopts pets and grows their volumes, builds templates, downloads the base; forget

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
    # A role at a deeper path replaces the one above it, so that this narrows what may be done to a pet.
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
    """A role on a path, and which work needs it."""

    path: str
    role: str
    work: str

    @property
    def privileges(self) -> tuple[str, ...]:
        return _ROLES[self.role]


def grants(node: ProxmoxSpec, pets: Iterable[int], storages: Iterable[str], bridges: Iterable[str]) -> list[Grant]:
    """Return what the agents of a file need on this node, least first."""
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
    """Yield each privilege that is wanted on a path and not held there."""
    for grant in wanted:
        for privilege in grant.privileges:
            if privilege not in held.get(grant.path, ()):
                yield grant, privilege


def commands(work: str, wanted: Iterable[Grant], token: str) -> list[str]:
    """Return what root runs on the node so that a token, and the user it belongs to, can do that work."""
    chosen = [grant for grant in wanted if grant.work == work]
    roles = dict.fromkeys(grant.role for grant in chosen)
    user = token.partition("!")[0]
    return [
        *(_role(role) for role in roles),
        *(f"pveum acl modify {grant.path} --users {user} --tokens '{token}' --roles {grant.role}" for grant in chosen),
    ]


def _role(name: str) -> str:
    """One that is there already, with fewer privileges, is changed."""
    privileges = f"{name} --privs '{' '.join(_ROLES[name])}'"
    return f"pveum role add {privileges} || pveum role modify {privileges}"
