"""Reading the members of Paddock's two pools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from paddock.frozen import frozen
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import Forbidden, Missing
from paddock.places.proxmox.seen import Hidden, Pool
from paddock.spec.place import PoolsSpec


@frozen
class Members:
    """The containers in the pools, also those that the token may not see."""

    spec: PoolsSpec | None
    rows: Mapping[Pool, Mapping[int, Mapping[str, Any]]]
    unlisted: tuple[str, ...] = ()  # pools that the token may not list, or that do not exist

    def pool_of(self, vmid: int) -> Pool:
        """Return the pool of a container of any node."""
        if self.spec is None:
            return Pool.ANY
        return next((pool for pool, rows in self.rows.items() if vmid in rows), Pool.OUTSIDE)

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(vmid for rows in self.rows.values() for vmid in rows)

    def on_other_nodes(self, node: str) -> Iterator[Mapping[str, Any]]:
        """Yield the members that are on another node of the cluster."""
        return (row for rows in self.rows.values() for row in rows.values() if row["node"] != node)

    def not_in(self, listed: Iterable[Mapping[str, Any]], node: str) -> list[Mapping[str, Any]]:
        """Return the members on a node that a list of its containers lacks."""
        known = {int(row["vmid"]) for row in listed}
        return [row for rows in self.rows.values() for row in rows.values() if _lacks(known, row, node)]

    def hidden(self, read: Collection[int]) -> Hidden:
        """Return what the token could not read, given the containers that it could."""
        if self.spec is None:
            return Hidden()
        names = {Pool.MACHINES: self.spec.machines, Pool.STATE: self.spec.state}
        unread = {vmid: names[pool] for pool, rows in self.rows.items() for vmid in rows if vmid not in read}
        return Hidden(self.unlisted, unread)


def _lacks(known: Collection[int], row: Mapping[str, Any], node: str) -> bool:
    return row["node"] == node and int(row["vmid"]) not in known


def read(client: Client, spec: PoolsSpec | None) -> Members:
    """List the members of both pools. Proxmox also lists members whose configuration the token may not read."""
    if spec is None:
        return Members(None, {})
    rows: dict[Pool, Mapping[int, Mapping[str, Any]]] = {}
    unlisted = []
    for pool, name in ((Pool.MACHINES, spec.machines), (Pool.STATE, spec.state)):
        try:
            found = client.get("/pools", {"poolid": name})
        except (Forbidden, Missing):
            unlisted.append(name)
            continue
        members = [row for each in found for row in each.get("members", ()) if row.get("type") == "lxc"]
        rows[pool] = {int(row["vmid"]): row for row in members}
    return Members(spec, rows, tuple(unlisted))
