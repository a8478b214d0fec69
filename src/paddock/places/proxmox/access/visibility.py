"""Containers that the token may not see: an agent without a machine in the list may still have one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from paddock.base.errors import Refused, WorldChanged
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox.access.privileges import AUDIT, Held
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError, Forbidden, NoContainer
from paddock.places.proxmox.node import reading
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.numbers import is_taken
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.pet.plan import state_in
from paddock.plan.step import Refusal

_GUEST: Final = re.compile(r"/vms/(\d+)")


def refusals(client: Client, node: ProxmoxSpec, want: MachineWant, seen: ProxmoxSeen) -> Iterator[Refusal]:
    """Yield a refusal for each reason why an agent without an observed machine may still have one."""
    held: Held = client.get("/access/permissions")
    unknown = f"it is not known whether {want.agent} is down"
    # With pools, the plan itself refuses while a member of them is hidden.
    if node.pools is None and int(held.get("/vms", {}).get(AUDIT, 0)) != 1:
        hint = "`paddock doctor` prints the commands that grant it"
        yield Refusal(
            f"the token may not see all containers: it lacks {AUDIT} on /vms; {unknown}",
            hint,
            code="down.containers-hidden",
        )
        return
    for vmid in sorted(_possible_numbers(node, want, seen, held) - (seen.taken - seen.unseen)):
        if is_taken(client, vmid):
            reason = f"number {vmid} is taken by something that the token may not see; {unknown}"
            yield Refusal(reason, f"grant the token {AUDIT} on /vms/{vmid}", code="down.number-hidden")
    for pet in seen.with_role(Role.PET):
        state = state_in(want, pet)
        users = users_of(client, state.volume, pet.vmid) if state else []
        if any(user.mark and user.mark.agent == want.id for user in users):
            raise WorldChanged(f"{users[0].name} is the machine of {want.agent} by now")
        if state and users:
            yield Refusal(
                f"{', '.join(user.name for user in users)} uses {state.volume}, the state of {want.agent}; {unknown}",
                "stop that container",
                code="down.state-in-use",
            )


def _possible_numbers(node: ProxmoxSpec, want: MachineWant, seen: ProxmoxSeen, held: Held) -> set[int]:
    """Return numbers that a hidden machine may have.

    These are the numbers in the file, those that the token lacks privileges on, and the first that seems free:
    Paddock takes the first free number for a new machine, and so do people.
    """
    named = {number for number in (want.spec.machine.vmid, want.spec.state.pet.vmid) if number is not None}
    if node.pools:
        return named  # every other machine of the agent is a member of the pool, which the token may list
    hidden = {int(match[1]) for path in held if (match := _GUEST.fullmatch(path)) and AUDIT not in held[path]}
    first = next(vmid for vmid in range(100, 1_000_000_000) if vmid not in seen.taken or vmid in seen.unseen)
    return named | hidden | {first}


def users_of(client: Client, volume: str, but: int, agent: AgentId | None = None) -> list[LxcContainer]:
    """Return all other containers of the cluster that have a volume mounted or configured.

    A machine of the agent counts too: another run may be about to give it the volume. Refuse if a container on a node
    that cannot be asked may have it.
    """
    cluster = reading.read(client)
    everybodys = volume.partition(":")[0] not in reading.local_storages(client.get("/storage"))
    listed = client.get(f"/nodes/{client.node}/lxc")
    everywhere = client.get("/cluster/resources", {"type": "vm"})
    numbers = {(client.node, int(row["vmid"])) for row in listed}
    numbers |= {(str(row["node"]), int(row["vmid"])) for row in everywhere if row["type"] == "lxc"}
    others = sorted(each for each in numbers if each[1] != but)
    unread = [each for each in others if each[0] in cluster.offline]
    asked = [each for each in others if each[0] not in cluster.offline]
    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(lambda each: _user(client, each[0], each[1], volume, agent), asked))
    unread += [each for each in found if isinstance(each, tuple)]
    if unread and everybodys:
        node, vmid = unread[0]
        why = "is offline" if node in cluster.offline else "does not answer"
        raise Refused(
            f"container {vmid} is on node {node}, which {why}: it is not known whether it uses {volume}",
            hint=f"start node {node} first",
        )
    return [container for container in found if isinstance(container, LxcContainer)]


def _user(
    client: Client, node: str, vmid: int, volume: str, agent: AgentId | None
) -> LxcContainer | tuple[str, int] | None:
    """Return the container if it uses the volume, now or after its next start.

    Return its node and number if the node does not answer.
    """
    path = f"/nodes/{node}/lxc/{vmid}/config"
    try:
        # A volume that is detached with the next stop is only in the second response.
        configs: list[Mapping[str, Any]] = [client.get(path), client.get(path, {"current": 1})]
    except NoContainer:
        return None
    except Forbidden:
        raise WorldChanged(f"container {vmid} was listed, and cannot be read any more") from None
    except ApiError as error:
        if reading.is_unreachable(error):
            return node, vmid
        raise
    containers = [LxcContainer(vmid, "unknown", config) for config in configs]
    uses = any(mount.volume == volume for container in containers for mount in container.mounts)
    mark = containers[0].mark
    marked = agent is not None and mark is not None and mark.agent == agent
    return containers[0] if uses or marked else None
