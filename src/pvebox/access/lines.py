"""Read and write access data as lines of Proxmox's user.cfg. The file has no secrets."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from urllib.parse import unquote

from pvebox.access.accounts import Access, AclEntry, Group, Pool, Token, User
from pvebox.access.privileges import BUILT_IN_ROLES
from pvebox.api import formats


def apply_access_lines(access: Access, lines: list[str]) -> None:
    """Apply lines of user.cfg: replace the pools and ACLs, add the users, tokens, groups and roles.

    A token that did not exist before gets a new secret.
    """
    access.pools.clear()
    access.acl.clear()
    for line in lines:
        kind, *given = line.split(":")
        fields = [*given, *[""] * 8]
        match kind:
            case "user":
                name, enable, expire, firstname, lastname, email, comment, keys, *_ = fields
                access.users[name] = User(
                    enable == "1",
                    int(expire or 0),
                    unquote(comment),
                    unquote(firstname),
                    unquote(lastname),
                    email,
                    keys,
                )
            case "token":
                name, expire, privsep, comment, *_ = fields
                known = access.tokens.get(name)
                secret = known.secret if known else str(uuid.uuid4())
                access.tokens[name] = Token(secret, privsep == "1", int(expire or 0), unquote(comment))
            case "group":
                name, users, comment, *_ = fields
                access.groups[name] = Group(set(formats.split_list(users)), unquote(comment))
            case "role":
                access.roles[fields[0]] = frozenset(formats.split_list(fields[1]))
            case "pool":
                name, comment, vmids, storages, *_ = fields
                members = {int(vmid) for vmid in formats.split_list(vmids)}
                access.pools[name] = Pool(unquote(comment), members, set(formats.split_list(storages)))
            case "acl":
                propagate, path, ugids, roles, *_ = fields
                for ugid in ugids.split(","):
                    for role in roles.split(","):
                        access.acl.append(AclEntry(path, ugid, role, propagate == "1"))


def access_lines(access: Access) -> list[str]:
    """Return the lines of user.cfg."""
    return [*_users(access), *_groups(access), *_pools(access), *_roles(access), *_acls(access)]


def _users(access: Access) -> Iterator[str]:
    for name, user in sorted(access.users.items()):
        names = f"{_encoded(user.firstname)}:{_encoded(user.lastname)}:{user.email}"
        yield f"user:{name}:{int(user.enabled)}:{user.expire}:{names}:{_encoded(user.comment)}:{user.keys}:"
        for token_id, token in sorted(access.tokens.items()):
            if token_id.startswith(f"{name}!"):
                yield f"token:{token_id}:{token.expire}:{int(token.privsep)}:{_encoded(token.comment)}:"


def _groups(access: Access) -> Iterator[str]:
    for name, group in sorted(access.groups.items()):
        yield f"group:{name}:{','.join(sorted(group.users))}:{_encoded(group.comment)}:"


def _pools(access: Access) -> Iterator[str]:
    for name, pool in sorted(access.pools.items()):
        vmids = ",".join(str(vmid) for vmid in sorted(pool.vmids))
        yield f"pool:{name}:{_encoded(pool.comment)}:{vmids}:{','.join(sorted(pool.storages))}:"


def _roles(access: Access) -> Iterator[str]:
    for name, privileges in sorted(access.roles.items()):
        if name not in BUILT_IN_ROLES:
            yield f"role:{name}:{','.join(sorted(privileges))}:"


def _acls(access: Access) -> Iterator[str]:
    grouped: dict[tuple[str, bool, str], set[str]] = {}
    for entry in access.acl:
        grouped.setdefault((entry.path, entry.propagate, entry.role), set()).add(entry.ugid)
    for (path, propagate, role), ugids in sorted(grouped.items()):
        yield f"acl:{int(propagate)}:{path}:{','.join(sorted(ugids))}:{role}:"


def _encoded(text: str) -> str:
    """Return a text with every colon, control and non-ASCII character as its UTF-8 bytes in percent notation."""
    return re.sub(r"[^\x20-\x39\x3b-\x7e]", _percent, text)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
