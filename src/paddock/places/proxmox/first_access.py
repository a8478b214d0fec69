"""Root's lines for the node's shell that give a new token its access: first to look, then for what was chosen."""

from __future__ import annotations

import re
from typing import Final

from paddock.errors import BadInput
from paddock.places.proxmox import access, sdn
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.privileges import Held, holds
from paddock.secret import Secret
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import PoolsSpec
from paddock.visible import one_line

_TOKEN_ID: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z][A-Za-z0-9._-]*)!([A-Za-z][A-Za-z0-9._-]+)")
_VALUE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # Proxmox makes UUIDs
_WORDS: Final = "--comment 'runs agents with Paddock'"


def user_lines(token_id: str, pools: PoolsSpec | None = None) -> list[str]:
    """Return the lines that create the user, the token, the pools and the roles, and let the token look.

    The token may then run agents in the pools, and read the names of storages, archives and bridges. The lines may be
    pasted twice.
    """
    user, name = _parts(token_id)
    pools = pools or PoolsSpec()
    wanted = [*access.in_pools(pools), *access.looking()]
    again = f"If the token exists and its secret is lost: pveum user token remove {user} {name}; then paste all again."
    return [
        f"pveum user add {user} {_WORDS} || pveum user modify {user} {_WORDS}",
        *access.pool_commands((pools.machines, pools.state)),
        *access.role_commands(wanted),
        f"pveum user token add {user} {name} --privsep 1 || echo '{again}'",
        *access.acl_commands(wanted, token_id),
    ]


def choice_lines(token_id: str, spec: ProxmoxSpec, held: Held | None = None, zones: sdn.Zones = sdn.NONE) -> list[str]:
    """Return the lines that let the token use the storages and the bridge of the file, and create the first pet.

    ``held`` is what the token holds already. If nothing is missing, there are no lines. ``zones`` are those of the SDN
    vnets.
    """
    _parts(token_id)
    wanted = access.grants(spec, (), (), (), zones=zones)
    lacking = {
        grant.path for grant in wanted for each in grant.privileges if held is None or not holds(held, grant.path, each)
    }
    # A role on a path replaces the roles that it inherits, so a path gets all of its roles or none.
    chosen = [grant for grant in wanted if grant.path in lacking]
    return [*access.role_commands(chosen), *access.acl_commands(chosen, token_id)]


def held_by(client: Client) -> Held:
    """Return what the client's token holds, by path."""
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
