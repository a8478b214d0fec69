"""Which nodes of a cluster can be asked: one request says it, before any request for a certain node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from paddock.errors import BadInput, PaddockError
from paddock.frozen import frozen
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import ApiError

# Proxmox's answers to a request that it could not pass on to another node. They say nothing about privileges.
_NOT_PASSED_ON: Final = frozenset({502, 503, 504, 595, 596})


class NodeOffline(PaddockError):
    """The node of the place is offline: corosync does not see it."""


@frozen
class Nodes:
    """The names of a cluster's nodes, and those that are offline.

    A node may be neither `online` nor `offline`: it is `unknown` while its pvestatd reports no figures, and answers.
    """

    names: frozenset[str]
    offline: frozenset[str]


def read(client: Client) -> Nodes:
    """Return the nodes of the cluster. Raise if the client's node is not one of them, or is offline.

    A request that an offline node would have to answer takes up to 30 seconds to fail.
    """
    rows = client.get("/nodes")
    names = frozenset(str(row["node"]) for row in rows)
    found = Nodes(names, frozenset(str(row["node"]) for row in rows if row.get("status") == "offline"))
    if client.node not in names:
        raise BadInput(
            f"{client.url} has no node {client.node}",
            hint=f"its nodes: {', '.join(sorted(names))}; write one of them as `node`, or as machine.node",
        )
    if client.node in found.offline:
        raise NodeOffline(f"node {client.node} is offline", hint="start it; what it has cannot be read")
    return found


def is_unreachable(error: ApiError) -> bool:
    """Whether an error says that a node does not answer, as for some seconds after it is cut off."""
    return error.status in _NOT_PASSED_ON


def local_storages(rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the storages whose volumes only one node sees: a container of another node cannot mount them."""
    return frozenset(str(row["storage"]) for row in rows if not int(row.get("shared", 0)))
