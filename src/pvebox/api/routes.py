"""The table of the API's methods: path, permission check, parameter schema and handler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pvebox.api import formats
from pvebox.api.errors import NoSuchMethodError, OperationError, ParameterError, PrivilegeError
from pvebox.api.schema import Prop, Properties, joined_lists, verify
from pvebox.cluster.cluster import Cluster

METHODS: Final = ("GET", "POST", "PUT", "DELETE")

NODE: Final = Prop(format=formats.node)
VMID: Final = Prop(type="integer", format=formats.vmid)
STORAGE: Final = Prop(format=formats.storage_id)
DIGEST: Final = Prop(optional=True, max_length=40)
_URI_PROPS: Final[Properties] = {"node": NODE, "vmid": VMID, "storage": STORAGE}


@dataclass
class Call:
    """One authenticated request: the caller and the parameters."""

    cluster: Cluster
    user: str
    params: dict[str, Any]

    @property
    def node(self) -> str:
        """The node named in the path."""
        return str(self.params["node"])

    @property
    def vmid(self) -> int:
        """The container named in the path or the parameters."""
        return int(self.params["vmid"])

    @property
    def is_root(self) -> bool:
        """Whether the caller is root@pam. A token of root@pam is not."""
        return self.user == "root@pam"

    def text(self, key: str) -> str | None:
        """Return a parameter as text, or None."""
        value = self.params.get(key)
        return None if value is None else str(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return whether a boolean parameter is true."""
        return str(self.params.get(key, int(default))) == "1"

    def require(self, path: str, *privileges: str, any_of: bool = False) -> None:
        """Raise unless the caller has the privileges on a path."""
        self.cluster.access.require(self.user, path, privileges, any_of=any_of)

    def allows(self, path: str, *privileges: str, any_of: bool = False) -> bool:
        """Return whether the caller has the privileges on a path."""
        return self.cluster.access.allows(self.user, path, privileges, any_of=any_of)


@dataclass(frozen=True)
class Reply:
    """The data of an answer and a total count, which task lists have."""

    data: Any
    total: int | None = None


Permission = Callable[[Call], None]
Handler = Callable[[Call], Any]


def anybody(call: Call) -> None:
    """Allow every authenticated caller. The handler makes its own checks."""


def world(call: Call) -> None:
    """Allow everybody, also without credentials."""


def having(path: str, *privileges: str, any_of: bool = False) -> Permission:
    """Return a check that requires privileges on a path. The path may contain parameters in braces."""

    def check(call: Call) -> None:
        filled = re.sub(r"\{([^}]+)\}", lambda found: str(call.params.get(found[1], "")), path)
        call.require(filled, *privileges, any_of=any_of)

    return check


CONTAINER: Final = "/nodes/{node}/lxc/{vmid}"
AUDIT: Final = having("/vms/{vmid}", "VM.Audit")


@dataclass(frozen=True)
class Method:
    """One method of the API."""

    verb: str
    path: str
    check: Permission
    properties: Properties
    handler: Handler
    for_tokens: bool = True

    @property
    def segments(self) -> list[str]:
        """The components of the path."""
        return [part for part in self.path.split("/") if part]


class Table:
    """All methods of the API."""

    def __init__(self) -> None:
        self._methods: list[Method] = []
        self._by_length: dict[tuple[str, int], list[Method]] = {}
        self._open_ended: list[Method] = []

    def method(
        self,
        verb: str,
        path: str,
        check: Permission,
        properties: Properties | None = None,
        *,
        for_tokens: bool = True,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds a handler to the table, with schemas for the parameters in the path."""

        def register(handler: Handler) -> Handler:
            named = re.findall(r"\{([^}*]+)\*?\}", path)
            uri = {name: _URI_PROPS.get(name, Prop()) for name in named}
            added = Method(verb, path, check, {**uri, **(properties or {})}, handler, for_tokens)
            self._methods.append(added)
            if path.endswith("*}"):
                self._open_ended.append(added)
            else:
                self._by_length.setdefault((verb, len(added.segments)), []).append(added)
            return handler

        return register

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]] | None:
        """Return the method for a request and the parameters in its path, or None."""
        parts = [unquote(part) for part in path.split("/") if part]
        for method in self._by_length.get((verb, len(parts)), ()):
            found = _match(method.segments, parts)
            if found is not None:
                return method, found
        for method in self._open_ended:
            fixed = method.segments[:-1]
            if method.verb == verb and len(parts) > len(fixed):
                found = _match(fixed, parts[: len(fixed)])
                if found is not None:
                    return method, {**found, method.segments[-1][1:-2]: "/".join(parts[len(fixed) :])}
        return None

    def __iter__(self) -> Iterator[Method]:
        return iter(self._methods)

    def is_open(self, verb: str, path: str) -> bool:
        """Return whether a request needs no credentials."""
        found = self.find(verb, path)
        return found is not None and found[0].check is world

    def perform(self, cluster: Cluster, user: str, verb: str, path: str, params: Mapping[str, Any]) -> Any:
        """Perform a request, with Proxmox's checks in Proxmox's order."""
        found = self.find(verb, path)
        if found is None:
            plain = "/" + "/".join(part for part in path.split("/") if part)
            raise NoSuchMethodError(f"Method '{verb} {plain}' not implemented")
        method, from_path = found
        for key, value in from_path.items():
            if key in params and str(params[key]) != value:
                raise ParameterError({key: "duplicate parameter (already defined in URI) with conflicting values!"})
        if not method.for_tokens and "!" in user:
            raise PrivilegeError(f"URI '{path}' not available with API token, need proper ticket.\n")
        call = Call(cluster, user, {**params, **from_path})
        if not call.is_root:
            method.check(call)
        node = from_path.get("node")
        if node is not None and node not in cluster.nodes and node != "localhost":
            raise OperationError(
                f"hostname lookup '{node}' failed - failed to get address info for: {node}: "
                "Temporary failure in name resolution"
            )
        if node is not None:
            cluster.members.require_reachable(node)
        if node == "localhost":
            call.params["node"] = next(iter(cluster.nodes))
        call.params = joined_lists(call.params, method.properties)
        verify(call.params, method.properties)
        return method.handler(call)


def _match(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for expected, part in zip(pattern, parts, strict=True):
        if expected.startswith("{"):
            found[expected[1:-1]] = part
        elif expected != part:
            return None
    return found


api: Final = Table()
