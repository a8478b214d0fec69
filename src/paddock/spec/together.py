"""Mistakes of things that are right alone and wrong together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from paddock.spec import mounted
from paddock.spec.agent import AgentSpec, RuntimeName, UserSpec
from paddock.spec.folders import overlap
from paddock.spec.kinds import FileView, Mistake
from paddock.spec.place import PlaceSpec, Scope
from paddock.spec.tree import dotted

_Placed = Mapping[str, tuple[AgentSpec, PlaceSpec]]


def no_such_place(agent: str, place: str, known: Collection[str]) -> Iterator[Mistake]:
    """The mistake of an agent that names a place the file does not have."""
    if place not in known:
        there = ", ".join(dotted((name,)) for name in known) or "none"
        yield ("agents", agent, "place"), f"there is no place {place!r} in this file (there is {there})"


def mistakes(file: FileView) -> Iterator[Mistake]:
    """Where in the file, and what."""
    for name, agent in file.agents.items():
        for location, sentence in file.kinds[agent.kind].validate(name, agent, file):
            yield ("agents", name, *location), sentence
    placed = {
        name: (agent, file.places[agent.place]) for name, agent in file.agents.items() if agent.place in file.places
    }
    for name, (agent, place) in placed.items():
        for location, sentence in [*_shape(agent, place), *_own(agent)]:
            yield ("agents", name, *location), sentence
    yield from _numbers(placed)
    yield from _volumes(placed)
    yield from _mounts(placed)
    yield from _neighbours(placed)


def _shape(agent: AgentSpec, place: PlaceSpec) -> Iterator[Mistake]:
    """What does not go with the place or the runtime."""
    if place.host is not None:
        if agent.runtime is RuntimeName.PROCESS and place.host.address is not None:
            yield ("runtime",), "process runs on this machine only: a place with host: {}"
        if agent.runtime is RuntimeName.PROCESS and agent.mounts:
            yield ("mounts",), "with runtime process the agent sees this machine's directories as they are"
        if agent.runtime is RuntimeName.DOCKER and place.host.scope is Scope.USER:
            yield ("runtime",), "docker needs root; a place with scope: user goes with podman, systemd or process"
        if agent.machine.model_fields_set:
            yield ("machine",), "a host is there already; machine goes with a proxmox place"
        for key in sorted(agent.state.model_fields_set & {"size", "pet", "storage", "volume", "backup"}):
            yield ("state", key), "on a host the state is a directory; only path: goes with it"
    elif agent.runtime is RuntimeName.PROCESS:
        yield ("runtime",), "process runs on this machine only: a place with host: {}"
    if agent.container.model_fields_set and not agent.runtime.is_engine:
        yield ("container",), f"container goes with runtime docker or podman, not {agent.runtime}"
    if agent.runtime.is_engine and agent.container.image is None and agent.container.base is None:
        yield ("container",), "say which: image: (one with the agent's code) or base: (a distribution without it)"
    if agent.runtime.is_engine and not agent.user.create and not {"uid", "gid"} <= agent.user.model_fields_set:
        yield ("user",), "an account that is there already is made in the container too: say its uid and gid"
    if agent.container.data is not None and place.host is not None:
        yield ("container", "data"), "a volume for the engine's data goes with a proxmox place"


def _own(agent: AgentSpec) -> Iterator[Mistake]:
    """What an agent contradicts itself in."""
    for name in agent.environment.keys() & agent.secrets.keys():
        yield ("environment", name), "is in secrets too; keep one"
    ports = agent.ports()
    for name, exposed in agent.expose.items():
        if exposed.port is None and name not in ports:
            known = f" (named are {', '.join(ports)})" if ports else ""
            yield ("expose", name), f"say which port: {{port: 8080}}{known}"
        elif exposed.port is not None and name in ports and exposed.port != ports[name]:
            yield ("expose", name, "port"), f"{name} listens on {ports[name]}; leave the port out here"


def _numbers(placed: _Placed) -> Iterator[Mistake]:
    """Two containers with one vmid; only a pet may be shared."""
    machines: dict[tuple[str, int], str] = {}
    pets: dict[tuple[str, int], str] = {}
    for name, (agent, place) in placed.items():
        if place.proxmox is None:
            continue
        node = place.proxmox.url.rstrip("/")
        vmid, pet = agent.machine.vmid, agent.state.pet.vmid
        if vmid is not None:
            if (node, vmid) in machines:
                yield ("agents", name, "machine", "vmid"), f"{vmid} is the machine of {machines[node, vmid]} already"
            machines.setdefault((node, vmid), name)
        if pet is not None:
            pets.setdefault((node, pet), name)
    for (node, pet), name in pets.items():
        if (node, pet) in machines:
            yield (
                ("agents", name, "state", "pet"),
                f"{pet} is the machine of {machines[node, pet]}; a pet is never a machine",
            )


def _volumes(placed: _Placed) -> Iterator[Mistake]:
    """Two agents with one state, or one within the other's."""
    volumes: dict[tuple[str, str], str] = {}
    folders: dict[tuple[str, str], str] = {}
    for name, (agent, place) in placed.items():
        if place.proxmox is not None:
            volume = agent.state.volume
            owner = volumes.setdefault((place.proxmox.url.rstrip("/"), volume), name) if volume else name
            if owner != name:
                yield ("agents", name, "state", "volume"), _already(volume, owner)
            continue
        machine, path = _machine(agent.place, place), _state(name, agent, place)
        if path is None:
            continue
        for (other_machine, other), owner in folders.items():
            if machine == other_machine and overlap(path, other):
                yield ("agents", name, "state", "path"), _already(other, owner)
        folders[machine, path] = name


def _state(name: str, agent: AgentSpec, place: PlaceSpec) -> str | None:
    """Where an agent's state is on its machine; None where only the machine knows, in the home of an account."""
    of_an_account = place.host is not None and place.host.scope is Scope.USER
    usual = None if of_an_account or agent.runtime is RuntimeName.PROCESS else f"/var/lib/paddock/{name}"
    return agent.state.path or usual


def _mounts(placed: _Placed) -> Iterator[Mistake]:
    """Mounts that hide what the agent needs, or show it what is not its own."""
    for name, (agent, place) in placed.items():
        machine = _machine(agent.place, place)
        states = {
            path: other
            for other, (each, where) in placed.items()
            if place.host
            and where.host
            and _machine(each.place, where) == machine
            and (path := _state(other, each, where))
        }
        for location, sentence in mounted.mistakes(agent, _state(name, agent, place), states):
            yield ("agents", name, *location), sentence


def _already(state: str | None, owner: str) -> str:
    return f"{state} is the state of {owner} already; two agents would write to it"


def _neighbours(placed: _Placed) -> Iterator[Mistake]:
    """Agents on one host that would be in each other's way."""
    ports: dict[tuple[str, int], str] = {}
    users: dict[tuple[str, str | int], str] = {}
    for name, (agent, place) in placed.items():
        if place.host is None or not agent.enabled:
            continue
        machine = _machine(agent.place, place)
        exposed = [(("expose", key), each.port) for key, each in agent.expose.items() if each.port is not None]
        for location, port in [*exposed, *((agent.port_key(key), port) for key, port in agent.ports().items())]:
            owner = ports.setdefault((machine, port), name)
            if owner != name:
                yield ("agents", name, *location), f"port {port} is used by {owner} on the same machine"
        if agent.runtime is RuntimeName.PROCESS or place.host.scope is Scope.USER:
            continue  # all of them run in the account of whoever runs paddock
        for account in _accounts(agent.user):
            owner = users.setdefault((machine, account), name)
            if owner != name:
                sentence = f"{account} is {owner}'s too, which could read its memory; give it an account of its own"
                yield ("agents", name, "user"), sentence + ": {name: NAME, uid: 10001}"
                break


def _accounts(user: UserSpec) -> Iterator[str | int]:
    """What gives access to what the account has; numbers only where the file decides them."""
    yield user.name
    if user.create or "uid" in user.model_fields_set:
        yield user.uid
    yield f"group {user.group_name}"
    if user.create or user.gid is not None:
        yield f"gid {user.uid if user.gid is None else user.gid}"


def _machine(name: str, place: PlaceSpec) -> str:
    """Tells hosts apart: two places may be the same machine."""
    return place.host.machine if place.host else name
