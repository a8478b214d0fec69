"""Asking a cluster, before there is a file: what the token may do, and what the nodes offer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from paddock.frozen import frozen
from paddock.places.proxmox import access, offers, sdn, tls
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import ApiError, Unauthorized
from paddock.places.proxmox.first_access import held_by
from paddock.places.proxmox.nodes import is_unreachable
from paddock.places.proxmox.offers import Bridge, NodeOffer, Survey
from paddock.places.proxmox.privileges import Held, Need, as_lines, missing
from paddock.secret import Secret
from paddock.spec.place import PoolsSpec
from paddock.visible import one_line

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


def who(client: Client, pools: PoolsSpec | None = None) -> Standing:
    """Return whether the node accepts the token, and what the token lacks."""
    try:
        held = held_by(client)
    except Unauthorized:
        return Standing(accepted=False)
    return standing(held, pools or PoolsSpec())


def standing(held: Held, pools: PoolsSpec) -> Standing:
    """Return the standing of an accepted token that holds these privileges."""
    needs = [Need(grant.path, each) for grant in access.in_pools(pools) for each in grant.privileges]
    blind, lacks = as_lines(_unseen(held)), as_lines(missing(needs, held))
    return Standing(True, not any(held.values()), tuple(blind), tuple(lacks))


def _unseen(held: Held) -> Iterator[Need]:
    """Yield the privileges that let a token see every storage or bridge, if it sees none."""
    for top, reads, uses in (
        ("/storage", "Datastore.Audit", "Datastore.AllocateSpace"),
        (sdn.TOP, "SDN.Audit", "SDN.Use"),
    ):
        below = [Need(path, reads, ((path, uses),)) for path in (top, *held) if f"{path}/".startswith(f"{top}/")]
        if len(missing(below, held)) == len(dict.fromkeys(below)):
            yield below[0]


def survey(client: Client) -> Survey:
    """Read what the nodes that answer offer to the client's token."""
    states = offers.nodes(client.get("/nodes"))
    asked = [name for name, may_answer in states.items() if may_answer]
    with ThreadPoolExecutor(max_workers=_WORKERS) as parallel:
        free = parallel.submit(client.get, "/cluster/nextid")
        vnets = offers.vnets(sdn.zones(client))
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
        keepers = offers.storages(stored, "vztmpl")
        contents = [f"{path}/storage/{keeper.name}/content?content=vztmpl" for keeper in keepers]
        found = [row for rows in parallel.map(partial(_listed, client), contents) for row in rows]
    return NodeOffer(
        name,
        one_line(str(told["version"]), 40),
        offers.storages(stored, "rootdir"),
        keepers,
        offers.with_vnets(offers.bridges(networks.result()), vnets),
        offers.archives(found),
        offers.downloads(index.result()),
    )


def _listed(client: Client, path: str) -> list[dict[str, Any]]:
    """Return a list of the node; an empty one if the node refuses it, because others may offer the same."""
    try:
        rows: list[dict[str, Any]] = client.get(path)
    except ApiError:
        return []
    return rows
