"""Describing an existing container with the keys of the file; settings that the file cannot express are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from paddock.file.agent_id import AgentId
from paddock.file.models.machine import Feature, MachineSpec
from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import Description
from paddock.places.proxmox.machine.plan import FILE_KEYS, NET_OPTIONS
from paddock.places.proxmox.node.notes import Mark, without_restart_note
from paddock.places.proxmox.node.observation import LxcContainer, Mount, options_of
from paddock.places.proxmox.pet.plan import path_in_pet, path_of_state

# Configuration keys with their names in the file, and keys that matter to no new machine.
_FILE_KEYS: Final = {
    **{key: key for key in ("hostname", "cores", "memory", "swap", "tags", "features")},
    **FILE_KEYS,
}
_IGNORED: Final = frozenset({"arch", "ostype", "digest", "description", "lock", "parent", "protection"})
_NET_OPTIONS: Final = NET_OPTIONS | {"type"}


def describe(
    node: ProxmoxSpec, agent: AgentId, machine: LxcContainer | None, state: Mount | None, pet: int | None
) -> Description:
    """Return the keys of the file that reproduce the machine and the state."""
    said: dict[str, Any] = {}
    left_out: list[str] = []
    if machine is not None:
        words = {key: value for key, value in _machine(node, machine) if value is not None}
        said["machine"] = {key: value for key, value in words.items() if _is_valid(MachineSpec, key, value)}
        said["mounts"] = list(_mounts(machine))
        left_out += _inexpressible(machine, said["machine"])
    if state is not None:
        said["state"] = {key: value for key, value in _state(node, agent, machine, state, pet) if value is not None}
    return Description({part: values for part, values in said.items() if values}, left_out)


def _machine(node: ProxmoxSpec, machine: LxcContainer) -> Iterator[tuple[str, Any]]:
    config, root = machine.config, machine.mount("rootfs")
    storage = root.storage if root else None
    yield "vmid", machine.vmid
    yield "hostname", config.get("hostname")
    yield "description", Mark.text_above(without_restart_note(machine.notes)) or None
    yield "cores", machine.number("cores")
    for key in ("memory", "swap"):
        mib = machine.number(key)
        yield key, 0 if mib == 0 else str(Size((512 if mib is None else mib) << 20))
    yield "disk", str(root.size) if root and root.size else None
    yield "storage", storage if storage != node.storage else None
    yield "net", _network(node, str(config.get("net0", "")))
    servers, search = str(config.get("nameserver", "")).split(), config.get("searchdomain")
    yield "dns", ({"servers": servers, "search": search} if search else servers) if servers or search else None
    yield "features", sorted(_features(machine)) or None
    yield "start_on_boot", machine.flag("onboot")
    yield "tags", [tag for tag in str(config.get("tags", "")).split(";") if tag not in ("", "paddock")] or None


def _network(node: ProxmoxSpec, text: str) -> dict[str, Any] | None:
    """Return the network card in the format of the file; None if the file cannot express it."""
    words = options_of(text)
    if words.get("name") != "eth0" or "ip" not in words:
        return None
    found: dict[str, Any] = {"address": words["ip"], "gateway": words.get("gw"), "mac": words.get("hwaddr")}
    found["bridge"] = words.get("bridge") if words.get("bridge") != node.bridge else None
    found["vlan"], found["mtu"] = (int(words[name]) if name in words else None for name in ("tag", "mtu"))
    found["firewall"] = True if words.get("firewall") == "1" else None
    return {key: value for key, value in found.items() if value is not None}


def _features(machine: LxcContainer) -> set[str]:
    flags = options_of(str(machine.config.get("features", "")))
    return {name for name, value in flags.items() if value == "1" and name in set(Feature)}


def _mounts(machine: LxcContainer) -> Iterator[dict[str, Any]]:
    for mount in machine.mounts:
        if mount.is_bind and mount.path:
            read_only = {"read_only": True} if mount.read_only else {}
            yield {"host": mount.volume, "path": mount.path, **read_only}


def _state(
    node: ProxmoxSpec, agent: AgentId, machine: LxcContainer | None, state: Mount, pet: int | None
) -> Iterator[tuple[str, Any]]:
    mounted = next((m for m in machine.mounts if m.volume == state.volume), None) if machine else None
    default = path_of_state(agent.name)
    yield "size", str(state.size) if state.size else None
    # An interrupted adoption has given the volume its path in the pet. The file has the machine's own path since then.
    unsaid = (default, path_in_pet(agent))
    yield "path", mounted.path if mounted and mounted.path not in unsaid else None
    yield "storage", state.storage if state.storage != node.storage else None
    yield "pet", pet


def _inexpressible(machine: LxcContainer, said: dict[str, Any]) -> Iterator[str]:
    """Yield settings that the file cannot express, and that a recreated machine would not have."""
    for key, value in sorted(machine.config.items()):
        mount = machine.mount(key)
        if key in _FILE_KEYS:
            known = _FILE_KEYS[key] in said or str(value) in ("", "0")
        elif mount is not None:
            known = mount.owner is not None or mount.is_bind
        else:
            known = key in _IGNORED or (key, str(value)) == ("unprivileged", "1")
        if not known:
            yield f"{key}: {value}"
    for key, expressible in (("net0", _NET_OPTIONS), ("features", set(Feature))):
        words = str(machine.config.get(key, "")).split(",")
        unknown = [word for word in words if word and word.partition("=")[0] not in expressible]
        if unknown and _FILE_KEYS[key] in said:
            yield f"{key}: {','.join(unknown)}"


def _is_valid(model: type[BaseModel], key: str, value: Any) -> bool:
    """Whether the file accepts the value for that key."""
    try:
        model.model_validate({key: value})
    except ValidationError:
        return False
    return True
