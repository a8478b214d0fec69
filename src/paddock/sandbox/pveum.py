"""The console command `pveum`: root changes users, tokens, roles and ACLs."""

from __future__ import annotations

import json
import uuid
from typing import Final

from .access import AclEntry, Token, User
from .cluster import Cluster
from .formats import split_list
from .privileges import ALL
from .shell import CommandResult, UsageError, parse_options

_ALIASES: Final = {"roleadd": ("role", "add"), "useradd": ("user", "add"), "aclmod": ("acl", "modify")}


def run(cluster: Cluster, rest: list[str]) -> CommandResult:
    """Run a pveum command with these arguments."""
    words = list(rest)
    if words and words[0] in _ALIASES:
        words[:1] = _ALIASES[words[0]]
    if words[:2] == ["user", "token"]:
        words.pop(0)
    if len(words) < 2:
        raise UsageError("pveum: missing command; the commands are role, user, acl and token")
    subject, verb, rest = words[0], words[1], words[2:]
    names = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    options = parse_options(rest)
    match subject, verb:
        case "role", "add" | "modify":
            out = _role(cluster, names, options, append=verb == "modify" and options.get("append") == "1")
        case "role", "delete":
            cluster.access.roles.pop(_one(names, "role"), None)
            out = ""
        case "role", "list":
            roles = sorted(cluster.access.roles.items())
            out = "".join(f"{name}: {','.join(sorted(privileges))}\n" for name, privileges in roles)
        case "user", "add":
            cluster.access.users[_one(names, "user")] = User()
            out = ""
        case "user", "delete":
            cluster.access.users.pop(_one(names, "user"), None)
            out = ""
        case "user", "list":
            out = "".join(f"{name}\n" for name in sorted(cluster.access.users))
        case "acl", "modify" | "delete":
            out = _acl(cluster, names, options, remove=verb == "delete")
        case "acl", "list":
            out = "".join(f"{e.path} {e.ugid} {e.role} {int(e.propagate)}\n" for e in cluster.access.acl)
        case "token", "add":
            out = _token(cluster, names, options)
        case "token", "remove" | "delete":
            cluster.access.tokens.pop("!".join(names), None)
            out = ""
        case "token", "list":
            start = f"{_one(names, 'user')}!"
            out = "".join(f"{name}\n" for name in sorted(cluster.access.tokens) if name.startswith(start))
        case _:
            raise UsageError(f"pveum: unknown command '{subject} {verb}'")
    cluster.access_changed()
    return CommandResult(out=out)


def _one(names: list[str], what: str) -> str:
    if len(names) != 1:
        raise UsageError(f"pveum: expected exactly one {what}")
    return names[0]


def _role(cluster: Cluster, names: list[str], options: dict[str, str], *, append: bool) -> str:
    wanted = frozenset(split_list(options.get("privs", "")))
    unknown = wanted - ALL
    if unknown:
        raise UsageError(f"invalid privilege '{sorted(unknown)[0]}'")
    name = _one(names, "role")
    cluster.access.roles[name] = wanted | (cluster.access.roles.get(name, frozenset()) if append else frozenset())
    return ""


def _acl(cluster: Cluster, names: list[str], options: dict[str, str], *, remove: bool) -> str:
    path = _one(names, "path")
    roles = split_list(options.get("roles") or options.get("role") or "")
    who = split_list(options.get("users") or options.get("user") or "")
    who += split_list(options.get("tokens") or options.get("token") or "")
    who += [f"@{group}" for group in split_list(options.get("groups") or options.get("group") or "")]
    unknown = [role for role in roles if role not in cluster.access.roles]
    if unknown or not roles or not who:
        wrong = (
            f"role '{unknown[0]}' does not exist"
            if unknown
            else "pveum acl: expected roles, and users, tokens or groups"
        )
        raise UsageError(wrong)
    meant = {(path, ugid, role) for ugid in who for role in roles}
    cluster.access.acl = [e for e in cluster.access.acl if (e.path, e.ugid, e.role) not in meant]
    if not remove:
        propagate = options.get("propagate", "1") != "0"
        cluster.access.acl += [AclEntry(path, ugid, role, propagate) for ugid in who for role in roles]
    return ""


def _token(cluster: Cluster, names: list[str], options: dict[str, str]) -> str:
    if len(names) != 2:
        raise UsageError("pveum token add: expected a user and a token name")
    owner, name = names
    if owner not in cluster.access.users:
        raise UsageError(f"no such user ('{owner}')")
    token = Token(str(uuid.uuid4()), options.get("privsep", "1") != "0", int(options.get("expire", "0")))
    cluster.access.tokens[f"{owner}!{name}"] = token
    info = {"privsep": str(int(token.privsep))}
    shown = {"full-tokenid": f"{owner}!{name}", "info": info, "value": token.secret}
    return json.dumps(shown) + "\n"
