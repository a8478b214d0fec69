"""Asking a cluster, before there is a file: what the token may do, and what the nodes offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import one_line
from paddock.file.models.place import PoolsSpec
from paddock.places.proxmox.access import roles
from paddock.places.proxmox.access.privileges import Held, Need, as_lines, missing
from paddock.places.proxmox.access.roles import held_by
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError, Unauthorized
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.reading import is_unreachable
from paddock.places.proxmox.template.cloning import LINKED

_WORKERS: Final = 8  # requests at the same time, as in an observation


@frozen
class Standing:
    """What a token may do, as far as it matters for a survey and for agents in the pools."""

    accepted: bool  # False: the token is wrong or expired, or its user is disabled
    holds_nothing: bool = False
    blind: tuple[str, ...] = ()  # privileges that it lacks to see storages and bridges, as text
    lacks: tuple[str, ...] = ()  # privileges that it lacks to run agents in the pools, as text


def connect(url: str, token: Secret, fingerprint: str | None) -> Client:
    """Return a client for a cluster of which no node is known yet. The caller closes it."""
    # The client needs its node only for tasks. A survey names each node in the path itself.
    return Client(url, "", token, tls.context(url, None, fingerprint))


def who(client: Client) -> Standing:
    """Return whether the node accepts the token, and what the token lacks."""
    try:
        held = held_by(client)
    except Unauthorized:
        return Standing(accepted=False)
    return standing(held, PoolsSpec())


def standing(held: Held, pools: PoolsSpec) -> Standing:
    """Return the standing of an accepted token that holds these privileges."""
    needs = [Need(grant.path, each) for grant in roles.in_pools(pools) for each in grant.privileges]
    blind, lacks = as_lines(_unseen(held)), as_lines(missing(needs, held))
    return Standing(True, not any(held.values()), tuple(blind), tuple(lacks))


def _unseen(held: Held) -> Iterator[Need]:
    """Yield the privileges that let a token see every storage or bridge, if it sees none."""
    for top, reads, uses in (
        ("/storage", "Datastore.Audit", "Datastore.AllocateSpace"),
        (network.TOP, "SDN.Audit", "SDN.Use"),
    ):
        below = [Need(path, reads, ((path, uses),)) for path in (top, *held) if f"{path}/".startswith(f"{top}/")]
        if len(missing(below, held)) == len(dict.fromkeys(below)):
            yield below[0]


def survey(client: Client) -> Survey:
    """Read which storages, bridges and archives the answering nodes offer to the client's token."""
    states = nodes(client.get("/nodes"))
    asked = [name for name, may_answer in states.items() if may_answer]
    with ThreadPoolExecutor(max_workers=_WORKERS) as parallel:
        free = parallel.submit(client.get, "/cluster/nextid")
        vnets = vnets_of(network.zones(client))
        found = dict(zip(asked, parallel.map(partial(_node, client, vnets), asked), strict=True))
    answered = tuple(offer for offer in found.values() if offer is not None)
    return Survey(answered, tuple(name for name in states if found.get(name) is None), int(free.result()))


def _node(client: Client, vnets: tuple[Bridge, ...], name: str) -> NodeOffer | None:
    """Return what a node offers; None if it does not answer."""
    path = f"/nodes/{name}"
    try:
        told = client.get(f"{path}/version")
    except ApiError as error:
        if is_unreachable(error):
            return None
        raise
    with ThreadPoolExecutor(max_workers=_WORKERS) as parallel:
        networks = parallel.submit(_listed, client, f"{path}/network?type=any_local_bridge")
        index = parallel.submit(_listed, client, f"{path}/aplinfo")
        stored = _listed(client, f"{path}/storage")
        keepers = storages(stored, "vztmpl")
        contents = [f"{path}/storage/{keeper.name}/content?content=vztmpl" for keeper in keepers]
        found = [row for rows in parallel.map(partial(_listed, client), contents) for row in rows]
    return NodeOffer(
        name,
        one_line(str(told["version"]), 40),
        storages(stored, "rootdir"),
        keepers,
        with_vnets(bridges(networks.result()), vnets),
        archives(found),
        downloads(index.result()),
    )


def _listed(client: Client, path: str) -> list[dict[str, Any]]:
    """Return a list of the node; an empty one if the node refuses it, because others may offer the same."""
    try:
        rows: list[dict[str, Any]] = client.get(path)
    except ApiError:
        return []
    return rows


# Systems that docs/hosts.md names: they have systemd, glibc and a Python that the code of agents runs with.
_SYSTEM: Final = re.compile(r"(debian|ubuntu)-(12|13|24\.04)-standard_([0-9.]+)-([0-9]+)_amd64\.tar\.(?:zst|xz|gz)")
# The first is the one that the live tests run on.
_SUPPORTED: Final = {("debian", "12"): "Debian 12", ("debian", "13"): "Debian 13", ("ubuntu", "24.04"): "Ubuntu 24.04"}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_NODE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")
_VOLUME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:vztmpl/([A-Za-z0-9][A-Za-z0-9_.+-]*)")
_URL: Final = re.compile(r"https?://[^/\s@]+/[^\s?#]*")
_SHA512: Final = re.compile(r"[0-9a-fA-F]{128}")

Row = Mapping[str, Any]


@frozen
class Storage:
    """A storage of a node, with its space in bytes."""

    name: str
    type: str
    free: int
    total: int
    shared: bool


@frozen
class Bridge:
    """A bridge that machines can be connected to."""

    name: str
    comment: str = ""
    address: str | None = None  # of the node on it, with the prefix


@frozen
class Archive:
    """A base archive on a storage. ``system`` is None if its name is not that of a system that Paddock knows."""

    volid: str
    size: int
    system: str | None


@frozen
class Download:
    """A base archive that Proxmox offers for download."""

    file: str
    url: str
    sha512: str
    system: str


@frozen
class NodeOffer:
    """What one node offers. The best choice of each list comes first."""

    name: str
    version: str
    disks: tuple[Storage, ...]  # can hold root disks and states
    keepers: tuple[Storage, ...]  # can keep base archives
    bridges: tuple[Bridge, ...]
    archives: tuple[Archive, ...]
    downloads: tuple[Download, ...]


@frozen
class Survey:
    """What the nodes of a cluster offer."""

    nodes: tuple[NodeOffer, ...]
    offline: tuple[str, ...]
    next_free: int  # a free number for a container; nothing reserves it


def nodes(rows: Iterable[Row]) -> dict[str, bool]:
    """Return the nodes by name, and whether each may answer.

    A node of `unknown` status may: only the daemon that reports figures is silent.
    """
    found = {_text(row, "node"): _text(row, "status") in ("online", "unknown") for row in rows}
    return {name: found[name] for name in sorted(found) if _NODE.fullmatch(name)}


def storages(rows: Iterable[Row], content: str) -> tuple[Storage, ...]:
    """Return the active storages for a kind of content. Those that clone at once come first, then the roomiest."""
    found = [
        Storage(
            str(row["storage"]),
            one_line(_text(row, "type"), 40),
            _number(row.get("avail")),
            _number(row.get("total")),
            _number(row.get("shared")) == 1,
        )
        for row in rows
        if _NAME.fullmatch(_text(row, "storage"))
        and content in _text(row, "content").split(",")
        and _number(row.get("active")) == 1
        and _number(row.get("enabled", 1)) == 1
    ]
    return tuple(sorted(found, key=lambda each: (each.type not in LINKED, -each.free, each.name)))


def bridges(rows: Iterable[Row]) -> tuple[Bridge, ...]:
    """Return the bridges. Those on which the node has a gateway come first: they lead to other networks."""
    found = [row for row in rows if _NAME.fullmatch(_text(row, "iface"))]
    found.sort(key=lambda row: (not row.get("gateway"), str(row["iface"])))
    return tuple(
        Bridge(
            str(row["iface"]),
            one_line(_text(row, "comments").strip(), 80),
            one_line(_text(row, "cidr"), 50) or None,
        )
        for row in found
    )


def vnets_of(zones: Mapping[str, str]) -> tuple[Bridge, ...]:
    """Return the SDN vnets of the cluster, which are bridges on every node of their zone."""
    return tuple(Bridge(name, f"SDN vnet of zone {zones[name]}") for name in sorted(zones))


def with_vnets(found: tuple[Bridge, ...], vnets: tuple[Bridge, ...]) -> tuple[Bridge, ...]:
    """Return the bridges and the vnets, each once: a node may list a vnet as a bridge too."""
    names = {each.name for each in vnets}
    return (*(each for each in found if each.name not in names), *vnets)


def archives(rows: Iterable[Row]) -> tuple[Archive, ...]:
    """Return the base archives of a storage: systems that Paddock knows first, and Debian 12 before all."""
    found = [
        (match[1], Archive(match[0], _number(row.get("size")), _system(match[1])))
        for row in rows
        if (match := _VOLUME.fullmatch(_text(row, "volid")))
    ]
    return tuple(archive for _, archive in sorted(found, key=lambda each: (_order(each[0]), each[1].volid)))


def downloads(rows: Iterable[Row]) -> tuple[Download, ...]:
    """Return the archives of Proxmox's index that Paddock can use, Debian 12 first."""
    found = []
    for row in rows:
        file, url, sha512 = (_text(row, key) for key in ("template", "location", "sha512sum"))
        system = _system(file)
        named = url.rpartition("/")[2] == file  # Paddock names the archive after its URL
        if system and named and _URL.fullmatch(url) and _SHA512.fullmatch(sha512):
            found.append(Download(file, url, sha512.lower(), system))
    return tuple(sorted(found, key=lambda each: _order(each.file)))


def _system(file: str) -> str | None:
    found = _SYSTEM.fullmatch(file)
    return _SUPPORTED.get((found[1], found[2])) if found else None


def _order(file: str) -> tuple[int, list[int], int, str]:
    """Return the rank of a file: the systems that Paddock knows, the newest of each first, then the rest by name."""
    found = _SYSTEM.fullmatch(file)
    if found is None or _system(file) is None:
        return len(_SUPPORTED), [], 0, file
    newest = [-int(part) for part in found[3].split(".") if part]
    return [*_SUPPORTED].index((found[1], found[2])), newest, -int(found[4]), file


def _text(row: Row, key: str) -> str:
    """Return a text of the API; empty if there is none."""
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    """Return a number of the API, which is a text now and then; 0 if it is none."""
    try:
        return max(int(value), 0)
    except (TypeError, ValueError, OverflowError):
        return 0
