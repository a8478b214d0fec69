"""Reading a node once: which nodes answer, and the containers with their configurations."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.file.models.place import BaseSpec
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError, Forbidden, NoContainer, Stopped
from paddock.places.proxmox.node import numbers as numbering
from paddock.places.proxmox.node import pools
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Claim, Role
from paddock.places.proxmox.node.observation import (
    Capacity,
    Hidden,
    Listed,
    LxcContainer,
    Pool,
    ProxmoxSeen,
    Unreachable,
    options_of,
)

_WORKERS: Final = 16  # requests at the same time; some are on their way while the node answers others


def read_node(
    client: Client, node: ProxmoxSpec, holder: Holder, cluster: Nodes, *, asks_networks: bool
) -> tuple[ProxmoxSeen, frozenset[int]]:
    """Return the observation, and the containers that are being created and have no mark yet.

    Nothing is asked that an offline node would have to answer.
    """
    listed = client.get(f"/nodes/{client.node}/lxc")
    with ThreadPoolExecutor(max_workers=_WORKERS) as parallel:
        taken = parallel.submit(client.get, "/cluster/resources", {"type": "vm"})
        capacity = parallel.submit(partial(_capacity, client, asks_networks=asks_networks))
        base_missing = parallel.submit(_base_missing, client, node.base)
        storages = parallel.submit(client.get, "/storage")
        members = pools.read(client, node.pools)
        # A container may have joined its pool since the list was made.
        rows = [*listed, *members.not_in(listed, client.node)]
        found = list(parallel.map(lambda row: _container(client, row, members.pool_of(int(row["vmid"]))), rows))
        away = members.on_other_nodes(client.node) if members.spec else _tagged(client.node, taken.result())
        distant = list(parallel.map(lambda row: _distant(client, row, members, cluster), away))
    containers = {container.vmid: container for container in found if container}
    on_other_nodes = {vmid: there for vmid, there in distant if isinstance(there, tuple)}
    unreachable = {vmid: there for vmid, there in distant if isinstance(there, Unreachable)}
    numbers = frozenset(int(row["vmid"]) for row in taken.result())
    here = {int(row["vmid"]) for row in taken.result() if (row["type"], row["node"]) == ("lxc", client.node)}
    locked = {c.vmid for c in containers.values() if c.lock == "create" and c.mark is None}
    seen = ProxmoxSeen(
        containers,
        numbers | containers.keys() | members.numbers,
        capacity.result(),
        base_missing.result(),
        {str(row["storage"]): str(row["path"]) for row in storages.result() if "path" in row},
        holder.name,
        client.now(),
        client.node,
        len(cluster.names),
        {int(row["vmid"]): _listed(row) for row in taken.result()},
        on_other_nodes,
        _hidden(client, members, containers.keys() | on_other_nodes.keys(), unreachable),
        local_storages(storages.result()),
        ended=_ended(containers.values(), holder),
    )
    return seen, frozenset(locked | (here - containers.keys() - seen.hidden.members.keys()))


def _hidden(
    client: Client, members: pools.Members, read: Collection[int], unreachable: Mapping[int, Unreachable]
) -> Hidden:
    """Return what could not be read, without the members that were deleted since they were listed."""
    hidden = members.hidden({*read, *unreachable})
    left = {vmid: pool for vmid, pool in hidden.members.items() if numbering.is_taken(client, vmid)}
    return replace(hidden, members=left, unreachable=unreachable)


def _distant(
    client: Client, row: Mapping[str, Any], members: pools.Members, cluster: Nodes
) -> tuple[int, tuple[str, LxcContainer] | Unreachable | None]:
    """Return a container of Paddock on another node; an offline node is not asked. None: it counts as hidden."""
    vmid, where = int(row["vmid"]), str(row["node"])
    pool = members.pool_of(vmid)
    if where in cluster.offline:
        return vmid, Unreachable(where, "which is offline", pool)
    try:
        config = client.get(f"/nodes/{where}/lxc/{vmid}/config")
    except ApiError as error:
        if is_unreachable(error):
            return vmid, Unreachable(where, "which does not answer", pool)
        return vmid, None
    return vmid, (where, LxcContainer(vmid, str(row.get("status", "unknown")), config, pool=pool))


def _tagged(node: str, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the containers on other nodes that have Paddock's tag, which is also listed for an offline node."""
    others = (row for row in rows if row["type"] == "lxc" and row["node"] != node)
    return [row for row in others if "paddock" in _listed(row).tags]


def _listed(row: Mapping[str, Any]) -> Listed:
    tags = frozenset(str(row.get("tags", "")).split(";")) - {""}
    return Listed(str(row["node"]), row.get("name"), tags, row["type"] == "lxc", row.get("hastate"))


def _ended(containers: Iterable[LxcContainer], holder: Holder) -> frozenset[str]:
    claims = {claim.holder for container in containers if (claim := Claim.from_notes(container.notes))}
    return frozenset(name for name in claims if holder.has_ended(name))


def _base_missing(client: Client, base: BaseSpec) -> bool:
    if base.url is None:
        return False  # without a url Paddock cannot download it; Proxmox reports a missing archive
    try:
        listed = client.get(f"/nodes/{client.node}/storage/{base.storage}/content", {"content": "vztmpl"})
    except Forbidden:
        return True  # a plan that needs the archive is refused with the privilege's name; doctor prints the commands
    return base.volid not in {row["volid"] for row in listed}


def _capacity(client: Client, *, asks_networks: bool) -> Capacity:
    try:
        memory = client.get(f"/nodes/{client.node}/status").get("memory", {}).get("total")
    except Forbidden:
        memory = None
    # Proxmox lists only the storages that the token may see.
    storages = client.get(f"/nodes/{client.node}/storage")
    free = {str(row["storage"]): int(row["avail"]) for row in storages if "avail" in row}
    bridges = client.get(f"/nodes/{client.node}/network", {"type": "any_bridge"}) if asks_networks else []
    networks = {str(row["iface"]): str(row["cidr"]) for row in bridges if row.get("address") and "cidr" in row}
    types = {str(row["storage"]): str(row.get("type", "")) for row in storages}
    return Capacity(int(memory) if memory else None, free, networks, types)


def _container(client: Client, row: Mapping[str, Any], pool: Pool) -> LxcContainer | None:
    """Return a container of a list; None if it is gone or hidden.

    One request is enough for most: the pending changes of a machine come with its configuration.
    """
    vmid, status = int(row["vmid"]), str(row["status"])
    path = f"/nodes/{client.node}/lxc/{vmid}"
    expects_machine = status == "running" and "paddock" in str(row.get("tags", "")).split(";")
    try:
        entries = client.get(f"{path}/pending") if expects_machine else None
        config = client.get(f"{path}/config") if entries is None else _after_restart(entries)
        container = LxcContainer(vmid, status, config, pool=pool)
        if not (container.has(Role.CATTLE) or container.has(Role.READER)) or not container.running:
            return container
        if entries is None:
            entries = client.get(f"{path}/pending")
    except NoContainer:
        return None  # destroyed since the list was made
    except Forbidden:
        return None  # hidden, or out of its pool since the list was made
    pending = frozenset(str(entry["key"]) for entry in entries if "pending" in entry or "delete" in entry)
    fixed = fixed_address(container.config) if "net0" not in pending else None  # otherwise it may have another one
    return replace(container, address=fixed, pending=pending, uptime=int(row.get("uptime", 0)))


def _after_restart(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the configuration with its pending changes, as Proxmox shows it, from the list of both."""
    left = (entry for entry in entries if "delete" not in entry)
    return {str(entry["key"]): entry["pending"] if "pending" in entry else entry["value"] for entry in left}


def address(client: Client, vmid: int) -> str | None:
    """Return an address of a running container that other machines can reach; prefer IPv4."""
    return reachable(cards(client, vmid))


@frozen
class Card:
    """A network card of a running container, without its loopback."""

    name: str
    mac: str
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        has = "has" if reachable([self]) or not self.addresses else "has only"
        return f"{self.name} ({self.mac}) {has} {', '.join(self.addresses) or 'none'}"


def cards(client: Client, vmid: int) -> list[Card]:
    """Return the network cards of a running container. Their names are text from inside the machine."""
    interfaces = client.get(f"/nodes/{client.node}/lxc/{vmid}/interfaces")
    if interfaces is None:
        raise Stopped(f"machine {vmid} is no longer running", hint="its console on the node may show why")
    return [
        Card(
            one_line(str(each.get("name", "?")), 20),
            one_line(str(each.get("hwaddr", "?")), 20),
            tuple(str(ipaddress.ip_address(entry["ip-address"])) for entry in each.get("ip-addresses", [])),
        )
        for each in interfaces
        if each.get("name") != "lo"
    ]


def reachable(found: Iterable[Card]) -> str | None:
    """Return an address of the cards that other machines can reach; prefer IPv4."""
    addresses = [ipaddress.ip_address(each) for card in found for each in card.addresses]
    usable = [each for each in addresses if not (each.is_loopback or each.is_link_local)]
    return str(min(usable, key=lambda each: each.version)) if usable else None


def fixed_address(config: Mapping[str, Any]) -> str | None:
    """Return the address that a configuration gives to a container; None if DHCP does."""
    fixed = options_of(str(config.get("net0", ""))).get("ip", "")
    return fixed.partition("/")[0] if "/" in fixed else None


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
        raise NodeOffline(f"node {client.node} is offline", hint="start it: until then its containers are unknown")
    return found


def is_unreachable(error: ApiError) -> bool:
    """Whether an error says that a node does not answer, as for some seconds after it is cut off."""
    return error.status in _NOT_PASSED_ON


def local_storages(rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the storages whose volumes only one node sees: a container of another node cannot mount them."""
    return frozenset(str(row["storage"]) for row in rows if not int(row.get("shared", 0)))
