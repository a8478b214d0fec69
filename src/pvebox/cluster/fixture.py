"""Fixtures: read and write the JSON description of a cluster, in the format of the recordings."""

from __future__ import annotations

import ipaddress
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pvebox.access.accounts import Access, AclEntry, Group, Pool, Token, User
from pvebox.access.privileges import BUILT_IN_ROLES
from pvebox.access.realms import hashed
from pvebox.api import formats
from pvebox.api.errors import SandboxError
from pvebox.api.schema import FormatError
from pvebox.cluster.cluster import Node, Release
from pvebox.guests.storage import Storage, storage_from

DEFAULT_TEMPLATE: Final = "debian-12-standard_12.12-1_amd64.tar.zst"

_DNS: Final = {"search": "sandbox", "dns1": "10.99.0.254"}
_USER_TEXTS: Final = ("comment", "firstname", "lastname", "email", "keys")

_CONFIG: Final = tuple(f"VM.Config.{part}" for part in ("CPU", "Disk", "Memory", "Network", "Options"))
# The privileges that Paddock's own token needs, and no others.
_DEPLOYER_ROLES: Final[dict[str, list[str]]] = {
    "PaddockGuests": [
        *("VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", *_CONFIG),
        *("VM.Console", "VM.PowerMgmt", "VM.Snapshot"),
    ],
    "PaddockStorage": ["Datastore.AllocateSpace", "Datastore.Audit"],
    "PaddockNetwork": ["SDN.Audit", "SDN.Use"],
}

# Two tokens with rights on two pools only.
_POOLED_USER: Final = "pooled@pve"
_POOLED_TOKENS: Final = (f"{_POOLED_USER}!daily", f"{_POOLED_USER}!setup")
_POOL_ROLES: Final[dict[str, list[str]]] = {
    "PoolMachine": ["Pool.Audit", "VM.Allocate", "VM.Audit", "VM.Clone", *_CONFIG, "VM.PowerMgmt"],
    "PoolPet": ["Pool.Audit", "VM.Audit", "VM.Config.Disk"],
    "PoolPetSetup": ["Pool.Audit", "VM.Allocate", "VM.Audit", *_CONFIG],
    "PoolStore": ["Datastore.AllocateSpace", "Datastore.Audit"],
    "PoolBase": ["Datastore.Audit"],
    "PoolNet": ["SDN.Use"],
}
_POOL_ACL: Final = (
    ("/pool/paddock", "PoolMachine", _POOLED_TOKENS),
    ("/pool/paddock-state", "PoolPet", _POOLED_TOKENS[:1]),
    ("/pool/paddock-state", "PoolPetSetup", _POOLED_TOKENS[1:]),
    ("/storage/local-lvm", "PoolStore", _POOLED_TOKENS),
    ("/storage/local", "PoolBase", _POOLED_TOKENS),
    ("/sdn/zones/localnetwork/vmbr0", "PoolNet", _POOLED_TOKENS),
)


@dataclass(frozen=True)
class Fixture:
    """A parsed fixture: nodes, storages, accounts, release, templates and an optional recorded state."""

    nodes: Mapping[str, Node]
    storages: Mapping[str, Storage]
    access: Access
    release: Release
    templates: tuple[str, ...]
    jobs: Mapping[str, dict[str, Any]]
    dns: Mapping[str, dict[str, str]]
    vnets: Mapping[str, str]  # with their zones
    cluster_name: str = "sandbox"
    index: tuple[Mapping[str, Any], ...] = ()
    state: Mapping[str, Any] | None = None

    @property
    def bridges(self) -> dict[str, tuple[str, ...]]:
        """The bridges of each node that containers can use. Every node has all vnets."""
        return {name: (*node.bridges, *self.vnets) for name, node in self.nodes.items()}


def default_fixture(nodes: tuple[str, ...] = ("pve",)) -> dict[str, Any]:
    """Return a fixture with tokens of new secrets: root's, Paddock's, and two with rights on two pools only."""
    acl = [
        {"path": "/vms", "ugid": "paddock@pve", "role": "PaddockGuests", "propagate": 1},
        {"path": "/storage", "ugid": "paddock@pve", "role": "PaddockStorage", "propagate": 1},
        {"path": "/sdn/zones/localnetwork", "ugid": "paddock@pve", "role": "PaddockNetwork", "propagate": 1},
        *(
            {"path": path, "ugid": ugid, "role": role, "propagate": 1}
            for path, role, tokens in _POOL_ACL
            for ugid in (_POOLED_USER, *tokens)
        ),
    ]
    return {
        "nodes": {name: {"cpus": os.cpu_count() or 1, "bridges": ["vmbr0"]} for name in nodes},
        "users": {name: {"enabled": True} for name in ("root@pam", "paddock@pve", _POOLED_USER)},
        "tokens": {
            # `pvebox token` prints the first of these tokens.
            **{name: {"secret": str(uuid.uuid4()), "privsep": True} for name in reversed(_POOLED_TOKENS)},
            "paddock@pve!deploy": {"secret": str(uuid.uuid4()), "privsep": False},
            "root@pam!sandbox": {"secret": str(uuid.uuid4()), "privsep": False},
        },
        "roles": {**_DEPLOYER_ROLES, **_POOL_ROLES},
        "pools": {"paddock": {}, "paddock-state": {}},
        "acl": acl,
        "storages": {
            "local": {"type": "dir", "content": ["backup", "iso", "vztmpl", "snippets"]},
            "local-lvm": {"type": "lvmthin", "content": ["rootdir", "images"]},
        },
        "templates": [f"local:vztmpl/{DEFAULT_TEMPLATE}"],
    }


def read_fixture(path: Path) -> dict[str, Any]:
    """Read the JSON of a fixture file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SandboxError(f"The fixture {path} cannot be read: {error.strerror}.") from None
    except json.JSONDecodeError as error:
        raise SandboxError(f"The fixture {path} is not JSON: line {error.lineno}: {error.msg}.") from None
    if not isinstance(data, dict):
        raise SandboxError(f"The fixture {path} is not a JSON object.")
    return data


def parse_fixture(data: Mapping[str, Any]) -> Fixture:
    """Parse the JSON of a fixture."""
    try:
        return Fixture(
            nodes={name: _node(name, entry) for name, entry in data["nodes"].items()},
            storages={name: _storage(name, entry) for name, entry in data["storages"].items()},
            access=_access(data),
            release=Release(**data["version"]) if "version" in data else Release(),
            templates=tuple(data.get("templates", ())),
            cluster_name=str(data.get("cluster", {}).get("name", "sandbox")),
            index=tuple(dict(entry) for entry in data.get("index", ())),
            jobs={name: dict(job) for name, job in data.get("jobs", {}).items()},
            dns=dict.fromkeys(data["nodes"], _DNS) | data.get("dns", {}),
            vnets=dict(data.get("vnets", {})),
            state=data.get("state"),
        )
    except FormatError as error:
        raise SandboxError(f"The fixture is invalid: {str(error).strip()}.") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SandboxError(f"The fixture is invalid: {error!r}.") from None


def _node(name: str, entry: Mapping[str, Any]) -> Node:
    formats.node(name)
    address = str(ipaddress.ip_address(entry.get("address", "10.99.0.1")))
    return Node(name, cpus=int(entry.get("cpus", 2)), bridges=tuple(entry.get("bridges", ("vmbr0",))), address=address)


def _storage(name: str, entry: Mapping[str, Any]) -> Storage:
    formats.storage_id(name)
    return storage_from(name, entry)


def _user(entry: Mapping[str, Any]) -> User:
    texts = {key: str(entry.get(key, "")) for key in _USER_TEXTS}
    return User(bool(entry.get("enabled", True)), int(entry.get("expire", 0)), **texts)


def _group(entry: Mapping[str, Any] | list[str]) -> Group:
    """Parse a group: a list of users, or an object with a comment."""
    if isinstance(entry, list):
        return Group(set(entry))
    return Group(set(entry.get("users", ())), str(entry.get("comment", "")))


def _access(data: Mapping[str, Any]) -> Access:
    access = Access()
    for name, entry in data.get("users", {}).items():
        access.users[name] = _user(entry)
        if "password" in entry:
            access.passwords[name] = hashed(entry["password"])
    access.users.setdefault("root@pam", User())
    access.passwords.update(data.get("passwords", {}))
    if "authkey" in data:
        access.authkey = bytes.fromhex(data["authkey"])
    for name, entry in data.get("tokens", {}).items():
        access.tokens[name] = Token(
            entry["secret"], bool(entry.get("privsep", True)), int(entry.get("expire", 0)), entry.get("comment", "")
        )
    access.groups = {name: _group(entry) for name, entry in data.get("groups", {}).items()}
    for name, privileges in data.get("roles", {}).items():
        access.roles[name] = frozenset(privileges)
    for name, entry in data.get("pools", {}).items():
        members = [str(member) for member in entry.get("members", ())]
        access.pools[name] = Pool(
            entry.get("comment", ""),
            {int(member) for member in members if member.isdecimal()},
            {member for member in members if not member.isdecimal()},
        )
    for entry in data.get("acl", ()):
        access.acl.append(AclEntry(entry["path"], entry["ugid"], entry["role"], bool(entry.get("propagate", 1))))
    return access


def storages_in(lines: list[str]) -> dict[str, Storage]:
    """Return the storages of lines of Proxmox's storage.cfg: `type: id`, then a line for each property."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        kind, colon, name = line.partition(": ")
        if colon and not line.startswith((" ", "\t")):
            entry = found.setdefault(name, {"type": kind, "content": []})
            continue
        key, _, value = line.strip().partition(" ")
        entry[key] = formats.split_list(value) if key in ("content", "nodes") else value
    return {name: _storage(name, entry) for name, entry in found.items()}


def access_data(access: Access) -> dict[str, Any]:
    """Return users, tokens, roles, groups, pools and ACLs in the JSON format of a fixture."""
    return {
        "users": {name: {**vars(user)} for name, user in access.users.items()},
        "passwords": access.passwords,
        "authkey": access.authkey.hex(),
        "tokens": {name: {**vars(token)} for name, token in access.tokens.items()},
        "groups": {
            name: {"comment": group.comment, "users": sorted(group.users)} for name, group in access.groups.items()
        },
        "roles": {name: sorted(privileges) for name, privileges in access.roles.items() if name not in BUILT_IN_ROLES},
        "pools": {
            name: {
                "comment": pool.comment,
                "members": [*sorted(pool.vmids), *sorted(pool.storages)],
            }
            for name, pool in access.pools.items()
        },
        "acl": [{"path": e.path, "ugid": e.ugid, "role": e.role, "propagate": int(e.propagate)} for e in access.acl],
    }
