"""Rules between keys and between agents: each part is valid, but not together with the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from paddock.file.kinds import FileView, Mistake
from paddock.file.models.agent import AgentSpec, RuntimeName, UserSpec
from paddock.file.models.place import PlaceSpec, Scope, TemplateUse
from paddock.file.rules import enforcement, mounts, shapes
from paddock.file.rules.folders import overlap
from paddock.file.tree import dotted

_Placed = Mapping[str, tuple[AgentSpec, PlaceSpec]]


def no_such_place(agent: str, place: str, known: Collection[str]) -> Iterator[Mistake]:
    """Yield a mistake if an agent names a place that the file does not have."""
    if place not in known:
        there = ", ".join(dotted((name,)) for name in known) or "none"
        yield ("agents", agent, "place"), f"there is no place {place!r} in this file (there is {there})"


def mistakes(file: FileView) -> Iterator[Mistake]:
    """Yield the location and the message of each mistake."""
    for name, agent in file.agents.items():
        for location, sentence in file.kinds[agent.kind].validate(name, agent, file):
            yield ("agents", name, *location), sentence
    placed = {
        name: (agent, file.places[agent.place]) for name, agent in file.agents.items() if agent.place in file.places
    }
    for name, (agent, place) in placed.items():
        for location, sentence in [
            *_shape(agent, place),
            *shapes.mistakes(agent, place),
            *shapes.container_mistakes(agent),
            *_own(agent),
            *enforcement.mistakes(agent, place),
        ]:
            yield ("agents", name, *location), sentence
    yield from _numbers(placed)
    yield from _volumes(placed)
    yield from _mounts(placed)
    yield from _neighbours(placed)


def _shape(agent: AgentSpec, place: PlaceSpec) -> Iterator[Mistake]:
    """Yield the keys that do not go with the agent's place or runtime."""
    if place.host is not None:
        if agent.runtime is RuntimeName.PROCESS and place.host.address is not None:
            yield ("runtime",), "runtime process runs on this machine only; it needs a place with host: {}"
        if agent.runtime is RuntimeName.PROCESS and agent.mounts:
            yield ("mounts",), "mounts do not go with runtime process: the agent sees all directories of this machine"
        if agent.runtime is RuntimeName.DOCKER and place.host.scope is Scope.USER:
            yield ("runtime",), "docker needs root; a place with scope: user needs runtime podman, systemd or process"
    elif agent.runtime is RuntimeName.PROCESS:
        yield ("runtime",), "runtime process runs on this machine only; it needs a place with host: {}"
    yield from _archives(agent, place)
    if agent.runtime.is_engine and agent.container.image is None and agent.container.base is None:
        yield ("container",), "needs image: (with the agent's code) or base: (a distribution without it)"
    if agent.runtime.is_engine and not agent.user.create and not {"uid", "gid"} <= agent.user.model_fields_set:
        yield (
            ("user",),
            "needs uid and gid of the existing account, because the container gets an account with the same numbers",
        )
    if agent.container.data is not None and place.host is not None:
        yield ("container", "data"), "a volume for the engine's data needs a proxmox place"


def _archives(agent: AgentSpec, place: PlaceSpec) -> Iterator[Mistake]:
    """Yield the keys with which Proxmox could not make readable backups of the agent."""
    if agent.backup is None or agent.backup.to.proxmox is None:
        return
    where = ("backup", "to", "proxmox")
    if place.proxmox is None:
        yield where, "needs a proxmox place; on a host, back up to a folder or to restic"
    elif place.proxmox.template is TemplateUse.NONE:
        yield where, "a clone of the template reads such a backup, and the place has template: none"
    if not agent.state.backup:
        yield ("state", "backup"), "false keeps the state out of the backups that backup.to.proxmox makes"


def _own(agent: AgentSpec) -> Iterator[Mistake]:
    """Yield the contradictions within an agent."""
    for name in agent.environment.keys() & agent.secrets.keys():
        yield ("environment", name), "is in secrets too; keep one"
    ports = agent.ports()
    for name, exposed in agent.expose.items():
        if exposed.port is None and name not in ports:
            known = f" (or use a name of the agent's own ports: {', '.join(ports)})" if ports else ""
            yield ("expose", name), f"needs a port: {{port: 8080}}{known}"
        elif exposed.port is not None and name in ports and exposed.port != ports[name]:
            yield ("expose", name, "port"), f"{name} listens on {ports[name]}; leave the port out here"


def _numbers(placed: _Placed) -> Iterator[Mistake]:
    """Yield vmids that are used twice; only a pet may be shared."""
    machines: dict[tuple[str, int], str] = {}
    pets: dict[tuple[str, int], str] = {}
    for name, (agent, place) in placed.items():
        if place.proxmox is None:
            continue
        node = place.proxmox.url.rstrip("/")
        vmid, pet = agent.machine.vmid, agent.state.pet.vmid
        if vmid is not None:
            if (node, vmid) in machines:
                yield ("agents", name, "machine", "vmid"), f"{vmid} is already the machine of {machines[node, vmid]}"
            machines.setdefault((node, vmid), name)
        if pet is not None:
            pets.setdefault((node, pet), name)
    for (node, pet), name in pets.items():
        if (node, pet) in machines:
            yield (
                ("agents", name, "state", "pet"),
                f"{pet} is the machine of {machines[node, pet]}; a pet cannot be a machine",
            )


def _volumes(placed: _Placed) -> Iterator[Mistake]:
    """Yield states that belong to two agents, or overlap."""
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
    """Return the path of an agent's state on its machine; None if the path is below an account's unknown home."""
    of_an_account = place.host is not None and place.host.scope is Scope.USER
    usual = None if of_an_account or agent.runtime is RuntimeName.PROCESS else f"/var/lib/paddock/{name}"
    return agent.state.path or usual


def _mounts(placed: _Placed) -> Iterator[Mistake]:
    """Yield mounts that hide needed folders, or give foreign directories to an agent."""
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
        for location, sentence in mounts.mistakes(agent, _state(name, agent, place), states):
            yield ("agents", name, *location), sentence


def _already(state: str | None, owner: str) -> str:
    return f"{state} is already the state of {owner}; two agents would write to it"


def _neighbours(placed: _Placed) -> Iterator[Mistake]:
    """Yield conflicts between agents on one host: ports and accounts."""
    ports: dict[tuple[str, int], str] = {}
    users: dict[tuple[str, str], str] = {}
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
            continue  # they run in the account of the user who runs paddock
        for account in _accounts(agent.user):
            owner = users.setdefault((machine, account), name)
            if owner != name:
                sentence = f"{account} is also used by {owner}, which could read this agent's state;"
                yield ("agents", name, "user"), f"{sentence} give it an account of its own: {{name: NAME, uid: 10001}}"
                break


def _accounts(user: UserSpec) -> Iterator[str]:
    """Yield the names and numbers that give access to the account's files; numbers only if the file decides them."""
    yield f"account {user.name}"
    if user.create or "uid" in user.model_fields_set:
        yield f"uid {user.uid}"
    yield f"group {user.group_name}"
    if user.create or user.gid is not None:
        yield f"gid {user.uid if user.gid is None else user.gid}"


def _machine(name: str, place: PlaceSpec) -> str:
    """Return a name for the machine of a place, equal for two places on one host."""
    return place.host.machine if place.host else name
