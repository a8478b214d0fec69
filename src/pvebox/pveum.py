"""The console command `pveum`: root changes users, tokens, roles, ACLs and pools."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from .access import ROOT, AclEntry, User
from .cluster import Cluster
from .errors import OperationError, ParameterError
from .formats import split_list
from .privileges import ALL, BUILT_IN_ROLES
from .routes import api
from .shell import CommandResult, UsageError, parse_options

_ALIASES: Final = {
    "useradd": ("user", "add"),
    "userdel": ("user", "delete"),
    "roleadd": ("role", "add"),
    "rolemod": ("role", "modify"),
    "roledel": ("role", "delete"),
    "aclmod": ("acl", "modify"),
    "acldel": ("acl", "delete"),
}
_NAME: Final = r"[A-Za-z0-9.\-_]+"
_ACL_PATH: Final = re.compile(
    rf"/|/access(/(groups|realm)(/{_NAME})?)?|/mapping(/{_NAME}){{0,2}}|/(nodes|storage)(/{_NAME})?"
    rf"|/pool(/{_NAME}){{0,3}}|/sdn(/{_NAME}){{0,4}}|/vms(/[1-9][0-9]{{2,}})?"
)


def run(cluster: Cluster, rest: list[str]) -> CommandResult:
    """Run a pveum command with these arguments."""
    words = list(rest)
    if words and words[0] in _ALIASES:
        words[:1] = _ALIASES[words[0]]
    if words[:2] == ["user", "token"]:
        words.pop(0)
    if len(words) < 2:
        raise UsageError("pveum: missing command; the commands are role, user, acl, token and pool")
    subject, verb, rest = words[0], words[1], words[2:]
    names = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    options = parse_options(rest)
    as_json = options.pop("output-format", "text").startswith("json")
    out = ""
    match subject, verb:
        case "role", "add":
            _add_role(cluster, _one(names, "role"), options)
        case "role", "modify":
            _change_role(cluster, _one(names, "role"), options)
        case "role", "delete":
            _delete_role(cluster, _one(names, "role"))
        case "role", "list":
            roles = sorted(cluster.access.roles.items())
            out = "".join(f"{name}: {','.join(sorted(privileges))}\n" for name, privileges in roles)
        case "user", "add":
            _add_user(cluster, _one(names, "user"))
        case "user", "delete":
            cluster.access.users.pop(_one(names, "user"), None)
        case "user", "list":
            out = "".join(f"{name}\n" for name in sorted(cluster.access.users))
        case "acl", "modify" | "delete":
            _change_acl(cluster, _one(names, "path"), options, remove=verb == "delete")
        case "acl", "list":
            out = "".join(f"{e.path} {e.ugid} {e.role} {int(e.propagate)}\n" for e in cluster.access.acl)
        case "token", "add":
            if len(names) != 2:
                raise UsageError("pveum token add: expected a user and a token name")
            out = json.dumps(_call(cluster, "POST", f"/access/users/{names[0]}/token/{names[1]}", options)) + "\n"
        case "token", "remove" | "delete":
            cluster.access.tokens.pop("!".join(names), None)
        case "token", "list":
            start = f"{_one(names, 'user')}!"
            out = "".join(f"{name}\n" for name in sorted(cluster.access.tokens) if name.startswith(start))
        case "pool", "add" | "modify" | "delete":
            method = {"add": "POST", "modify": "PUT", "delete": "DELETE"}[verb]
            _call(cluster, method, "/pools", {**options, "poolid": _one(names, "pool")})
        case "pool", "list":
            pools = _call(cluster, "GET", "/pools", options)
            out = json.dumps(pools) + "\n" if as_json else "".join(f"{pool['poolid']}\n" for pool in pools)
        case _:
            raise UsageError(f"pveum: unknown command '{subject} {verb}'")
    cluster.access_changed()
    return CommandResult(out=out)


def _call(cluster: Cluster, verb: str, path: str, params: dict[str, str]) -> Any:
    return api.perform(cluster, ROOT, verb, path, params)


def _one(names: list[str], what: str) -> str:
    if len(names) != 1:
        raise UsageError(f"pveum: expected exactly one {what}")
    return names[0]


def _privileges(options: dict[str, str]) -> frozenset[str]:
    wanted = frozenset(split_list(options.get("privs", "")))
    for unknown in sorted(wanted - ALL):
        raise ParameterError({"privs": f"invalid format - invalid privilege '{unknown}'"})
    return wanted


def _add_role(cluster: Cluster, name: str, options: dict[str, str]) -> None:
    privileges = _privileges(options)
    if name.upper().startswith("PVE"):
        raise ParameterError({"roleid": "cannot use role ID starting with the (case-insensitive) 'PVE' namespace"})
    if name in cluster.access.roles:
        raise OperationError(f"create role failed: role '{name}' already exists")
    cluster.access.roles[name] = privileges


def _change_role(cluster: Cluster, name: str, options: dict[str, str]) -> None:
    privileges = _privileges(options)
    if name in BUILT_IN_ROLES:
        raise OperationError(f"auto-generated role '{name}' cannot be modified")
    if name not in cluster.access.roles:
        raise OperationError(f"update role failed: role '{name}' does not exist")
    kept = cluster.access.roles[name] if options.get("append") == "1" else frozenset()
    cluster.access.roles[name] = kept | privileges


def _delete_role(cluster: Cluster, name: str) -> None:
    if name in BUILT_IN_ROLES:
        raise OperationError(f"auto-generated role '{name}' cannot be deleted")
    if name not in cluster.access.roles:
        raise OperationError(f"delete role failed: role '{name}' does not exist")
    del cluster.access.roles[name]


def _add_user(cluster: Cluster, name: str) -> None:
    if name in cluster.access.users:
        raise OperationError(f"create user failed: user '{name}' already exists")
    cluster.access.users[name] = User()


def _change_acl(cluster: Cluster, path: str, options: dict[str, str], *, remove: bool) -> None:
    given = {what: split_list(options.get(what) or "") for what in ("roles", "users", "tokens", "groups")}
    who = [*given["users"], *given["tokens"], *(f"@{group}" for group in given["groups"])]
    if not given["roles"]:
        raise ParameterError({"roles": "property is missing and it is not optional"})
    if not who:
        missing = "either 'users', 'groups' or 'tokens' is required."
        raise ParameterError(dict.fromkeys(("users", "groups", "tokens"), missing))
    if not remove and not _ACL_PATH.fullmatch(path):
        raise ParameterError({"path": f"invalid ACL path '{path}'"})
    _require_known(cluster, given)
    meant = {(path, ugid, role) for ugid in who for role in given["roles"]}
    access = cluster.access
    with access.lock:
        kept = [entry for entry in access.acl if (entry.path, entry.ugid, entry.role) not in meant]
        propagate = options.get("propagate", "1") != "0"
        added = [] if remove else [AclEntry(path, ugid, role, propagate) for ugid in who for role in given["roles"]]
        access.acl = [*kept, *added]


def _require_known(cluster: Cluster, given: dict[str, list[str]]) -> None:
    access = cluster.access
    known: dict[str, set[str]] = {"roles": {*access.roles}, "groups": {*access.groups}, "users": {*access.users}}
    for kind, names in known.items():
        for name in given[kind]:
            if name not in names:
                raise OperationError(f"ACL update failed: {kind[:-1]} '{name}' does not exist")
    for token in given["tokens"]:
        if token not in access.tokens:
            owner, _, name = token.partition("!")
            raise OperationError(f"ACL update failed: no such token '{name}' for user '{owner}'")
