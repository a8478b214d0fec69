"""Render the LXC config of a container."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.guests.network import parse_network
from pvebox.runtime.contract import ContainerSpec, Mount
from pvebox.runtime.lxc.names import FIRST_ID, ID_COUNT, Names

_INCLUDES: Final = "/usr/share/lxc/config"


def render(names: Names, spec: ContainerSpec, root: Path, entries: list[tuple[Path, Mount]], *, nesting: bool) -> str:
    """Return the text of a container's LXC config.

    Every container is unprivileged, even if its Proxmox config says otherwise: the sandbox does not use AppArmor.
    """
    includes = ["common.conf", "userns.conf", *(["nesting.conf"] if nesting else [])]
    hostname = spec.config.text("hostname") or f"CT{spec.vmid}"
    lines = [f"lxc.include = {_INCLUDES}/{name}" for name in includes]
    lines += [
        f"lxc.idmap = u 0 {FIRST_ID} {ID_COUNT}",
        f"lxc.idmap = g 0 {FIRST_ID} {ID_COUNT}",
        "lxc.apparmor.profile = unconfined",
        f"lxc.rootfs.path = dir:{root}",
        f"lxc.uts.name = {hostname.split('.', 1)[0]}",
        "lxc.signal.halt = SIGRTMIN+3",
        f"lxc.tty.max = {spec.config.options.get('tty', 2)}",
        "lxc.environment = TERM=linux",
        *_limits(spec),
        *_networks(names, spec),
        *(_entry(source, mount) for source, mount in entries),
    ]
    for line in lines:
        if not line.isprintable():
            # A newline in a value would start another setting, which LXC applies as root.
            raise OperationError(f"the config of CT {spec.vmid} has a control character in {line!r}")
    return "\n".join(lines) + "\n"


def _entry(source: Path, mount: Mount) -> str:
    options = "bind,ro" if mount.read_only else "bind"
    target = mount.path.strip("/").replace("\\", "\\134").replace(" ", "\\040")
    return f"lxc.mount.entry = {source} {target} none {options},create=dir 0 0"


def _limits(spec: ContainerSpec) -> list[str]:
    memory = int(spec.config.options.get("memory", 512)) << 20
    cores = spec.config.options.get("cores")
    available = sorted(os.sched_getaffinity(0))
    top = Path("/sys/fs/cgroup")
    lines = []
    if (top / "memory").is_dir():
        lines.append(f"lxc.cgroup.memory.limit_in_bytes = {memory}")
    elif (top / "cgroup.controllers").is_file():
        lines.append(f"lxc.cgroup2.memory.max = {memory}")
    if cores and int(cores) < len(available) and (top / "cpuset").is_dir():
        chosen = ",".join(str(cpu) for cpu in available[: int(cores)])
        lines.append(f"lxc.cgroup.cpuset.cpus = {chosen}")
    return lines


def _networks(names: Names, spec: ContainerSpec) -> list[str]:
    keys = sorted(key for key in spec.config.options if re.fullmatch(r"net\d+", key))
    if not keys:
        return ["lxc.net.0.type = empty"]
    lines = []
    for key in keys:
        index = int(key.removeprefix("net"))
        network = parse_network(str(spec.config.options[key]))
        lines += [
            f"lxc.net.{index}.type = veth",
            f"lxc.net.{index}.name = {network['name']}",
            f"lxc.net.{index}.veth.pair = {names.veth(spec.vmid, index)}",
            f"lxc.net.{index}.hwaddr = {network.get('hwaddr', '').lower()}",
        ]
        if network.get("link_down") != "1":
            lines += [f"lxc.net.{index}.link = {names.bridge}", f"lxc.net.{index}.flags = up"]
        if "mtu" in network:
            lines.append(f"lxc.net.{index}.mtu = {network['mtu']}")
    return lines
