"""The console command `pveum`: root changes users, tokens, roles, ACLs and pools."""

from __future__ import annotations

import json
from typing import Any, Final

from pvebox.access.accounts import ROOT
from pvebox.api.routes import api
from pvebox.cluster.cluster import Cluster
from pvebox.console.shell import CommandResult, UsageError, parse_options

_ALIASES: Final = {
    "useradd": ("user", "add"),
    "userdel": ("user", "delete"),
    "roleadd": ("role", "add"),
    "rolemod": ("role", "modify"),
    "roledel": ("role", "delete"),
    "usermod": ("user", "modify"),
    "groupadd": ("group", "add"),
    "groupmod": ("group", "modify"),
    "groupdel": ("group", "delete"),
    "aclmod": ("acl", "modify"),
    "acldel": ("acl", "delete"),
}


def run(cluster: Cluster, rest: list[str]) -> CommandResult:
    """Run a pveum command with these arguments."""
    words = list(rest)
    if words and words[0] in _ALIASES:
        words[:1] = _ALIASES[words[0]]
    if words[:2] == ["user", "token"]:
        words.pop(0)
    if words[:1] == ["passwd"]:
        words.insert(0, "user")
    if len(words) < 2:
        raise UsageError("pveum: missing command; the commands are role, user, group, acl, token, pool and passwd")
    subject, verb, rest = words[0], words[1], words[2:]
    names = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    options = parse_options(rest)
    as_json = options.pop("output-format", "text").startswith("json")
    out = ""
    match subject, verb:
        case "role" | "user" | "group", "add":
            _call(cluster, "POST", f"/access/{subject}s", {**options, f"{subject}id": _one(names, subject)})
        case "role" | "user" | "group", "modify" | "delete":
            method = {"modify": "PUT", "delete": "DELETE"}[verb]
            _call(cluster, method, f"/access/{subject}s/{_one(names, subject)}", options)
        case "role", "list":
            roles = sorted(cluster.access.roles.items())
            out = "".join(f"{name}: {','.join(sorted(privileges))}\n" for name, privileges in roles)
        case "user", "list":
            out = "".join(f"{name}\n" for name in sorted(cluster.access.users))
        case "user", "passwd":
            # Proxmox's command asks on the terminal, which this console does not have.
            _call(cluster, "PUT", "/access/password", {**options, "userid": _one(names, "user")})
        case "acl", "modify" | "delete":
            removal = {"delete": "1"} if verb == "delete" else {}
            _call(cluster, "PUT", "/access/acl", {**options, **removal, "path": _one(names, "path")})
        case "acl", "list":
            out = "".join(f"{e.path} {e.ugid} {e.role} {int(e.propagate)}\n" for e in cluster.access.acl)
        case "token", "add":
            if len(names) != 2:
                raise UsageError("pveum token add: expected a user and a token name")
            made = _call(cluster, "POST", f"/access/users/{names[0]}/token/{names[1]}", options)
            out = json.dumps(made) + "\n" if as_json else _table(made)
        case "token", "remove" | "delete":
            if len(names) != 2:
                raise UsageError(f"pveum token {verb}: expected a user and a token name")
            _call(cluster, "DELETE", f"/access/users/{names[0]}/token/{names[1]}", options)
        case "token", "list":
            start = f"{_one(names, 'user')}!"
            out = "".join(f"{name}\n" for name in sorted(cluster.access.tokens) if name.startswith(start))
        case "group", "list":
            out = "".join(f"{name}\n" for name in sorted(cluster.access.groups))
        case "pool", "add" | "modify" | "delete":
            method = {"add": "POST", "modify": "PUT", "delete": "DELETE"}[verb]
            _call(cluster, method, "/pools", {**options, "poolid": _one(names, "pool")})
        case "pool", "list":
            pools = _call(cluster, "GET", "/pools", options)
            out = json.dumps(pools) + "\n" if as_json else "".join(f"{pool['poolid']}\n" for pool in pools)
        case _:
            raise UsageError(f"pveum: unknown command '{subject} {verb}'")
    return CommandResult(out=out)


def _table(data: dict[str, Any]) -> str:
    """Return an object as the table that Proxmox's tools print without --output-format."""
    head = ("key", "value")
    rows = sorted((key, value if isinstance(value, str) else _json(value)) for key, value in data.items())
    widths = [max(len(row[at]) for row in (head, *rows)) for at in (0, 1)]

    def rule(left: str, line: str, middle: str, right: str) -> str:
        return f"{left}{middle.join(line * (width + 2) for width in widths)}{right}\n"

    def cells(row: tuple[str, str]) -> str:
        return f"│ {row[0]:<{widths[0]}} │ {row[1]:<{widths[1]}} │\n"

    body = rule("├", "─", "┼", "┤").join(map(cells, rows))
    return rule("┌", "─", "┬", "┐") + cells(head) + rule("╞", "═", "╪", "╡") + body + rule("└", "─", "┴", "┘")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _call(cluster: Cluster, verb: str, path: str, params: dict[str, str]) -> Any:
    return api.perform(cluster, ROOT, verb, path, params)


def _one(names: list[str], what: str) -> str:
    if len(names) != 1:
        raise UsageError(f"pveum: expected exactly one {what}")
    return names[0]
