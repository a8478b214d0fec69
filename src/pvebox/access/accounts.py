"""Access control: users, tokens, roles, groups, pools and ACLs, evaluated by Proxmox's rules."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Final, TypeVar

from pvebox.access.privileges import ALL, BUILT_IN_ROLES
from pvebox.api.errors import CredentialsError, OperationError, PrivilegeError

T = TypeVar("T")

ROOT: Final = "root@pam"
_TOKEN_VALUE = re.compile(r"(([^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+)!([A-Za-z][A-Za-z0-9.\-_]+))=(.+)\Z")
_POOLED = re.compile(r"/(vms|storage)/([^/]+)\Z")
# Paths that the permissions call lists even if no ACL names them.
_ALWAYS_LISTED: Final = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")


@dataclass
class User:
    """A user account. `expire` is a Unix time; 0 means never."""

    enabled: bool = True
    expire: int = 0
    comment: str = ""
    firstname: str = ""
    lastname: str = ""
    email: str = ""
    keys: str = ""


@dataclass
class Group:
    """A named set of users."""

    users: set[str] = field(default_factory=set)
    comment: str = ""


@dataclass
class Token:
    """An API token of a user. With privilege separation the token has only the privileges of its own ACLs."""

    secret: str
    privsep: bool = True
    expire: int = 0
    comment: str = ""


@dataclass
class Pool:
    """A named set of containers and storages."""

    comment: str = ""
    vmids: set[int] = field(default_factory=set)
    storages: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class AclEntry:
    """One line of the ACL: a user, token or @group has a role on a path."""

    path: str
    ugid: str
    role: str
    propagate: bool = True


@dataclass
class Access:
    """The users, tokens and ACLs of a cluster, and the checks of privileges."""

    users: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    roles: dict[str, frozenset[str]] = field(default_factory=lambda: dict(BUILT_IN_ROLES))
    pools: dict[str, Pool] = field(default_factory=dict)
    acl: list[AclEntry] = field(default_factory=list)
    # Hashes of the users' passwords.
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    # Signs the tickets.
    authkey: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False, compare=False)
    # Held while anything of the above changes.
    lock: threading.RLock = field(default_factory=threading.RLock, compare=False)
    _by_path: tuple[list[AclEntry], dict[str, list[AclEntry]]] = field(
        default=([], {}), init=False, repr=False, compare=False
    )

    def authenticate(self, authorization: str | None) -> str:
        """Return the token id that an Authorization header proves, or raise Proxmox's error."""
        if not authorization or not re.match(r"PVEAPIToken[= ]", authorization):
            raise CredentialsError("No ticket")
        found = _TOKEN_VALUE.match(authorization[len("PVEAPIToken") + 1 :].strip())
        if not found:
            raise CredentialsError("Authentication failed!")
        token_id, owner, _, secret = found.groups()
        token = self.tokens.get(token_id)
        if not self.is_enabled(owner) or token is None or _expired(token.expire):
            raise CredentialsError("Authentication failed!")
        if not secrets.compare_digest(token.secret.encode(), secret.encode()):
            raise CredentialsError("Authentication failed!")
        return token_id

    def is_enabled(self, userid: str) -> bool:
        """Return whether a user exists, is enabled and has not expired."""
        user = self.users.get(userid)
        return user is not None and user.enabled and not _expired(user.expire)

    def copy(self) -> Access:
        """Return an independent copy, to prepare a change."""
        made = Access()
        for name in _DATA:
            setattr(made, name, deepcopy(getattr(self, name)))
        return made

    def take(self, other: Access) -> None:
        """Take over the data of another object."""
        for name in _DATA:
            setattr(self, name, getattr(other, name))

    def user(self, userid: str) -> User:
        """Return a user, or raise Proxmox's error."""
        if userid not in self.users:
            raise OperationError(f"no such user ('{userid}')")
        return self.users[userid]

    def token(self, token_id: str) -> Token:
        """Return a token, or raise Proxmox's error."""
        owner, _, name = token_id.rpartition("!")
        self.user(owner)
        if token_id not in self.tokens:
            raise OperationError(f"no such token '{name}' for user '{owner}'")
        return self.tokens[token_id]

    def groups_of(self, userid: str) -> list[str]:
        """Return the groups of a user."""
        return sorted(name for name, group in self.groups.items() if userid in group.users)

    def privileges(self, who: str, path: str) -> dict[str, int]:
        """Return the privileges of a user or token on a path: 1 if they propagate to the paths below, else 0."""
        if who == ROOT:
            return dict.fromkeys(ALL, 1)
        token = self.tokens.get(who)
        owner = who.split("!", 1)[0]
        if token is not None and not token.privsep:
            return self.privileges(owner, path)
        privileges: dict[str, int] = {}
        for role, propagates in self._roles(who, path).items():
            for privilege in self.roles.get(role, ()):
                privileges[privilege] = privileges.get(privilege, 0) or int(propagates)
        if token is not None:
            ceiling = self.privileges(owner, path)
            return {name: min(flag, ceiling[name]) for name, flag in privileges.items() if name in ceiling}
        return privileges

    def allows(self, who: str, path: str, wanted: Iterable[str], *, any_of: bool = False) -> bool:
        """Return whether a user or token has all (or any) of the privileges on a path."""
        have = self.privileges(who, path)
        hits = [privilege in have for privilege in wanted]
        return any(hits) if any_of else all(hits)

    def require(self, who: str, path: str, wanted: Iterable[str], *, any_of: bool = False) -> None:
        """Raise Proxmox's error unless a user or token has the privileges on a path."""
        have = self.privileges(who, path)
        names = list(wanted)
        if any_of:
            if not any(name in have for name in names):
                raise PrivilegeError(f"{path}, {'|'.join(names)}")
            return
        for name in names:
            if name not in have:
                raise PrivilegeError(f"{path}, {name}")

    def acl_paths(self) -> set[str]:
        """Return the paths of all ACLs, and the paths above them."""
        return {prefix for entry in self.acl for prefix in _prefixes(entry.path)}

    def effective(self, who: str) -> dict[str, dict[str, int]]:
        """Return every path on which a user or token has privileges, with those privileges."""
        paths = self.acl_paths() | set(_ALWAYS_LISTED)
        for pool in self.pools.values():
            paths.update(f"/vms/{vmid}" for vmid in pool.vmids)
            paths.update(f"/storage/{storage}" for storage in pool.storages)
        found = {path: self.privileges(who, path) for path in sorted(paths)}
        return {path: privileges for path, privileges in found.items() if privileges}

    def pool_of(self, vmid: int) -> str | None:
        """Return the pool of a container, or None."""
        return next((name for name, pool in self.pools.items() if vmid in pool.vmids), None)

    def join_pool(self, vmid: int, name: str) -> None:
        """Add a new container to a pool, unless the pool was deleted in the meantime."""
        with self.lock:
            if name in self.pools:
                # A new set, because another thread may iterate over the old one.
                self.pools[name].vmids = self.pools[name].vmids | {vmid}

    def forget_container(self, vmid: int) -> None:
        """Drop a destroyed container's own ACLs and its pool membership."""
        gone = f"/vms/{vmid}"
        with self.lock:
            self.acl = [entry for entry in self.acl if entry.path != gone]
            for pool in self.pools.values():
                pool.vmids = pool.vmids - {vmid}

    def forget_storage(self, storage: str) -> None:
        """Drop a removed storage's own ACLs and its pool memberships."""
        gone = f"/storage/{storage}"
        with self.lock:
            self.acl = [entry for entry in self.acl if entry.path != gone]
            for pool in self.pools.values():
                pool.storages = pool.storages - {storage}

    def _roles(self, who: str, path: str) -> dict[str, bool]:
        roles = self._acl_roles(who, path)
        pooled = _POOLED.match(path)
        if pooled and "NoAccess" not in roles:
            for name, pool in self.pools.items():
                if not _is_member(pool, pooled[1], pooled[2]):
                    continue
                from_pool = self._acl_roles(who, f"/pool/{name}")
                if "NoAccess" in from_pool:
                    return {"NoAccess": False}
                # Roles on a pool are added to the roles on its member, but do not propagate below the member.
                roles = {**dict.fromkeys(from_pool, False), **roles}
        return roles

    def _entries_on(self, path: str) -> list[AclEntry]:
        """Return the ACL entries of exactly this path, from an index that is built after each change of the ACL."""
        entries, by_path = self._by_path
        if entries != self.acl:
            entries, by_path = list(self.acl), {}
            for entry in entries:
                by_path.setdefault(entry.path, []).append(entry)
            self._by_path = (entries, by_path)
        return by_path.get(path, [])

    def _acl_roles(self, who: str, path: str) -> dict[str, bool]:
        groups = {f"@{name}" for name, group in self.groups.items() if who in group.users}
        roles: dict[str, bool] = {}
        for prefix in _prefixes(path):
            own: dict[str, bool] = {}
            by_group: dict[str, bool] = {}
            for entry in self._entries_on(prefix):
                if not (prefix == path or entry.propagate):
                    continue
                if entry.ugid == who:
                    own[entry.role] = entry.propagate
                elif entry.ugid in groups:
                    by_group[entry.role] = entry.propagate
            # An entry on a longer path replaces the entries on its prefixes. A user's entry overrides a group's.
            roles = own or by_group or roles
        return {"NoAccess": roles["NoAccess"]} if "NoAccess" in roles else roles


def _is_member(pool: Pool, kind: str, name: str) -> bool:
    """Return whether a pool has a container (`vms`) or storage of this name."""
    if kind == "storage":
        return name in pool.storages
    vmid = int(name) if name.isdecimal() else 0
    return vmid in pool.vmids and name == str(vmid)


def existing(entries: Mapping[str, T], kind: str, name: str) -> T:
    """Return the group, role, pool or user of a name, or raise Proxmox's error."""
    if name not in entries:
        raise OperationError(f"{kind} '{name}' does not exist")
    return entries[name]


@lru_cache(maxsize=4096)
def _prefixes(path: str) -> tuple[str, ...]:
    parts = [part for part in path.split("/") if part]
    return ("/", *("/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)))


def _expired(when: int) -> bool:
    return bool(when) and when < time.time()


_DATA: Final = tuple(each.name for each in fields(Access) if each.name != "lock")
