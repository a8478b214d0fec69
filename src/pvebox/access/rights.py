"""Check the privileges that a change of a container's config needs, option by option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pvebox.api.errors import PrivilegeError
from pvebox.api.routes import Call
from pvebox.api.schema import parse_property_string
from pvebox.guests.disks import check_volume_access
from pvebox.guests.mountpoint import MountType, new_disk, parse
from pvebox.guests.network import parse_network
from pvebox.guests.options import FEATURES

_CPU = ("cores", "cpulimit", "cpuunits")
_MEMORY = ("memory", "swap")
_NETWORK = ("nameserver", "searchdomain", "hostname")


def require_config_rights(
    call: Call,
    vmid: int,
    pool: str | None,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    delete: Iterable[str],
    *,
    unprivileged: bool,
) -> None:
    """Raise unless the caller has the privileges for all these changes."""
    if call.is_root:
        return
    for key in sorted(new):
        _require(call, vmid, pool, key, old, str(new[key]), unprivileged)
    for key in delete:
        _require(call, vmid, pool, key, old, None, unprivileged)


def require_on_container(call: Call, vmid: int, pool: str | None, *privileges: str) -> None:
    """Raise unless the caller has the privileges on the container, or on the pool it will join."""
    if pool is not None and call.allows(f"/pool/{pool}", *privileges):
        return
    call.require(f"/vms/{vmid}", *privileges)


def require_bridge(call: Call, network: str) -> None:
    """Raise unless the caller may use the bridge, or its VLANs, that a `netN` text names."""
    parts = parse_network(network)
    bridge = parts.get("bridge")
    if bridge is None:
        return
    path = f"/sdn/zones/{call.cluster.vnets.get(bridge, 'localnetwork')}/{bridge}"
    vlans = [tag for tag in (parts.get("tag"), *parts.get("trunks", "").split(";")) if tag]
    for where in [f"{path}/{vlan}" for vlan in vlans] or [path]:
        call.require(where, "SDN.Use")


def _require(
    call: Call,
    vmid: int,
    pool: str | None,
    key: str,
    old: Mapping[str, Any],
    value: str | None,
    unprivileged: bool,
) -> None:
    if key in _CPU:
        require_on_container(call, vmid, pool, "VM.Config.CPU")
    elif key in _MEMORY:
        require_on_container(call, vmid, pool, "VM.Config.Memory")
    elif key == "rootfs" or re.fullmatch(r"mp\d+", key):
        require_on_container(call, vmid, pool, "VM.Config.Disk")
        if value is not None:
            _require_mount(call, vmid, key, value)
    elif re.fullmatch(r"net\d+", key):
        require_on_container(call, vmid, pool, "VM.Config.Network")
        for text in (old.get(key), value):
            if text:
                require_bridge(call, str(text))
    elif key in _NETWORK:
        require_on_container(call, vmid, pool, "VM.Config.Network")
    elif key == "features":
        _require_features(call, vmid, pool, old.get(key), value, unprivileged)
    elif re.fullmatch(r"dev\d+", key):
        raise PrivilegeError("configuring device passthrough is only allowed for root@pam")
    elif key == "hookscript":
        raise PrivilegeError("changing the hookscript is only allowed for root@pam")
    elif key == "tags":
        # Proxmox can restrict tags separately, so privileges on the pool do not count here.
        call.require(f"/vms/{vmid}", "VM.Config.Options")
    else:
        require_on_container(call, vmid, pool, "VM.Config.Options")


def _require_mount(call: Call, vmid: int, key: str, value: str) -> None:
    point = parse(key, value)
    if point.type is not MountType.VOLUME:
        raise PrivilegeError(f"mount point type {point.type} is only allowed for root@pam")
    asked = new_disk(point.volume)
    if asked is not None:
        call.require(f"/storage/{asked[0]}", "Datastore.AllocateSpace")
    else:
        check_volume_access(call, vmid, point.volume, "rootdir")


def _require_features(call: Call, vmid: int, pool: str | None, old: Any, value: str | None, unprivileged: bool) -> None:
    if not unprivileged:
        raise PrivilegeError("changing feature flags for privileged container is only allowed for root@pam")
    before = parse_property_string(str(old or ""), FEATURES)
    after = parse_property_string(value or "", FEATURES)
    if before and value is not None:
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    else:
        # If no flags were set before, every named flag counts as a change, even an explicit zero.
        changed = set(before if value is None else after)
    if changed - {"nesting"}:
        raise PrivilegeError("changing feature flags (except nesting) is only allowed for root@pam")
    if changed:
        require_on_container(call, vmid, pool, "VM.Allocate")
