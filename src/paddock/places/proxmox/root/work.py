"""Changes that only root may make in the node's shell: the commands for them, and the differences that are left."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from paddock.file.models.machine import Feature
from paddock.places.contract import MachineWant
from paddock.places.proxmox.actions import MOUNT_KEY, Bind, CannotPlan, RootWork
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen, free_keys, options_of

_OFFSET: Final = 100000  # first id of an unprivileged container on the node, without an lxc.idmap in its configuration
_NEW: Final = {"unprivileged": 1}  # configuration of a machine that does not exist yet
_SYSTEM: Final = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root"),
        *("/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var"),  # noqa: S108
        *("/etc/pve", "/mnt/pve", "/var/lib", "/var/log"),
    }
)
_STORAGE_FOLDERS: Final = frozenset({"dump", "images", "import", "private", "rootdir", "snippets", "template"})


def token_features(features: Iterable[Feature]) -> str:
    """Return the features that a token can set, in Proxmox's format."""
    return ",".join(f"{feature}=1" for feature in features if feature is Feature.NESTING)


def with_nesting(found: str, features: Iterable[Feature]) -> str:
    """Return the features of a container with nesting as the file says.

    A token must send all flags and may change nesting only. Where no flag was set, it may not send an explicit zero.
    """
    flags = options_of(found)
    if Feature.NESTING in features:
        flags[Feature.NESTING] = "1"
    elif Feature.NESTING in flags:
        flags[Feature.NESTING] = "0"
    return ",".join(f"{name}={value}" for name, value in sorted(flags.items()))


def root_features(features: Iterable[Feature]) -> list[str]:
    """Return the features that only root can set."""
    return sorted(feature for feature in features if feature is not Feature.NESTING)


def has_features(container: LxcContainer, features: Iterable[str]) -> bool:
    """Whether a container has all of these features."""
    found = options_of(str(container.config.get("features", "")))
    return all(found.get(name) == "1" for name in features)


def needed_work(
    want: MachineWant, cattle: LxcContainer | None, vmid: int, template: LxcContainer | None, used: Collection[str]
) -> RootWork | None:
    """Return the changes that root must make to the machine; None if there are none.

    A machine that does not exist yet will have the template's features. ``used`` are keys that other volumes get.
    """
    config = cattle.config if cattle else template.config if template else _NEW
    mounts = list(cattle.mounts) if cattle else []
    binds = tuple(bind for bind in _binds(want, mounts, used) if not any(bind.matches(mount) for mount in mounts))
    features = ""
    asked = want.spec.machine.features
    found = options_of(str(config.get("features", "")))
    if any(found.get(name) != "1" for name in root_features(asked)):
        flags = {**found, **dict.fromkeys(root_features(asked), "1")}
        features = with_nesting(",".join(f"{name}={value}" for name, value in flags.items()), asked)
    if not binds and not features:
        return None
    owner = owner_on_node(want, cattle)
    if binds and "-" in owner:
        raise CannotPlan(
            f"the lxc.idmap of machine {vmid} does not map uid {want.spec.user.uid} or its group",
            code="mounts.unmapped-owner",
        )
    return RootWork(vmid, owner, binds, features)


def _binds(want: MachineWant, mounts: Sequence[Mount], used: Collection[str]) -> Iterator[Bind]:
    """Yield the mounts of the file, each at its present key, at the key of a wrong mount, or at a free key."""
    taken = {MOUNT_KEY, *used, *(mount.key for mount in mounts)}
    wanted = want.spec.mounts
    for entry in wanted:
        bind = Bind("", entry.host, entry.path, entry.read_only)
        exact = [m for m in mounts if bind.matches(m)]
        there = [m for m in mounts if m.path == entry.path]
        elsewhere = [m for m in mounts if m.volume == entry.host and m.path not in [w.path for w in wanted]]
        for mount in there:
            if not mount.is_bind:
                raise CannotPlan(
                    f"the machine of {want.agent} already has {mount.volume} at {entry.path} ({mount.key})",
                    "write another path for the directory",
                    code="mounts.path-taken",
                )
        key = next((mount.key for mount in (*exact, *there, *elsewhere)), None) or next(free_keys(taken))
        taken.add(key)
        yield replace(bind, key=key)


def owner_on_node(want: MachineWant, cattle: LxcContainer | None) -> str:
    """Return the agent's uid and gid on the node, outside its machine; ``-`` for an id that is not mapped."""
    user = want.spec.user
    config = cattle.config if cattle else _NEW
    return f"{_outside('u', user.uid, config)}:{_outside('g', user.gid or user.uid, config)}"


def _outside(kind: str, number: int, config: Mapping[str, Any]) -> int | str:
    maps = [str(value).split() for key, value in config.get("lxc", ()) if key == "lxc.idmap"]
    for which, inside, outside, count in maps:
        if which == kind and int(inside) <= number < int(inside) + int(count):
            return int(outside) + number - int(inside)
    if maps:
        return "-"
    return number + _OFFSET if int(config.get("unprivileged", 0)) else number


def chained(lines: Sequence[str]) -> list[str]:
    """Return commands as one command of several lines, which ends at the first failure and can be pasted."""
    grouped = [f"{{ {line}; }}" if " || " in line else line for line in lines]
    return [*(f"{line} &&" for line in grouped[:-1]), *grouped[-1:]]


def commands(work: RootWork) -> list[str]:
    """Return the commands for the node's shell. They can be repeated, and change no owner below a directory."""
    lines = []
    for bind in work.binds:
        host = shlex.quote(bind.host)
        lines.append(f"mkdir -p {host}")
        if not bind.read_only:
            # The root directory of a mounted disk keeps its owner.
            lines.append(f"mountpoint -q {host} || chown {work.owner} {host}")
    options = [f"-features {shlex.quote(work.features)}"] if work.features else []
    options += [f"-{bind.key} {shlex.quote(str(bind))}" for bind in work.binds]
    lines += [f"pct set {work.vmid} {' '.join(options)}"] if options else []
    if work.template and work.features:
        lines.append(f"pct set {work.template} -features {shlex.quote(work.features)}")
    lines.append(f"pct reboot {work.vmid}")
    if work.binds:
        lines.append(f"ls -lnd {' '.join(shlex.quote(bind.host) for bind in work.binds)}")
    return lines


def remaining(work: RootWork, container: LxcContainer) -> RootWork:
    """Return the part of the work that is not done yet."""
    binds = tuple(bind for bind in work.binds if not any(bind.matches(mount) for mount in container.mounts))
    return replace(work, binds=binds, features=work.features if list(_missing_features(work, container)) else "")


def displaced(before: LxcContainer, now: LxcContainer) -> dict[str, str]:
    """Return the old values of volumes that lost their keys: a command with a wrong key replaced them."""
    volumes = {mount.key: str(before.config[mount.key]) for mount in before.mounts if not mount.is_bind}
    return {key: value for key, value in volumes.items() if now.config.get(key) != value}


def differences(work: RootWork, container: LxcContainer) -> list[str]:
    """Return a sentence for each part of the work that is missing or wrong."""
    return [*_missing_features(work, container), *(said for bind in work.binds for said in _unlike(bind, container))]


def _missing_features(work: RootWork, container: LxcContainer) -> Iterator[str]:
    found = options_of(str(container.config.get("features", "")))
    for name, value in options_of(work.features).items():
        if value == "1" and found.get(name) != "1":
            yield f"machine {work.vmid} does not have the feature {name}"


def _unlike(bind: Bind, container: LxcContainer) -> Iterator[str]:
    mounts = list(container.mounts)
    if any(bind.matches(mount) for mount in mounts):
        return
    there = next((m for m in mounts if m.path == bind.path), None)
    elsewhere = next((m for m in mounts if m.volume.rstrip("/") == bind.host), None)
    if there is None and elsewhere is None:
        yield f"{bind.host} is not mounted"
    elif there is None and elsewhere is not None:
        yield f"{elsewhere.key} mounts {bind.host} at {elsewhere.path}, but the file says {bind.path}"
    elif there is not None and there.volume.rstrip("/") != bind.host:
        yield f"{there.key} mounts {there.volume} at {bind.path}, but the file says {bind.host}"
    elif there is not None:
        found, asked = ("read-only", "writable") if there.read_only else ("writable", "read-only")
        yield f"{there.key} mounts {bind.host} {found}, but the file says {asked}"


def also_mounted(want: MachineWant, cattle: LxcContainer) -> Iterator[str]:
    """Yield a note for each bind mount that the file does not name."""
    paths = {entry.path for entry in want.spec.mounts}
    hosts = {entry.host for entry in want.spec.mounts}
    for mount in cattle.mounts:
        if mount.is_bind and mount.path not in paths and mount.volume not in hosts:
            yield (
                f"machine {cattle.vmid} also has {mount.volume} at {mount.path} ({mount.key}), which the file does not"
                " name: left as it is; a recreated machine would not have it"
            )


def check_host_paths(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse directories that must not belong to an agent."""
    for entry in want.spec.mounts:
        reason = _not_for_agents(entry.host, seen)
        if reason:
            raise CannotPlan(
                f"mounts: {entry.host} {reason}",
                "write a directory that only the agent uses",
                code="mounts.forbidden-directory",
            )


def _not_for_agents(host: str, seen: ProxmoxSeen) -> str | None:
    path = PurePosixPath(host)
    if host in _SYSTEM:
        return "is a directory of the node's own system"
    if path.parent == PurePosixPath("/mnt/pve"):
        return f"is the root of storage {path.name}"
    for name, root in seen.storages.items():
        if path == PurePosixPath(root):
            return f"is the root of storage {name}"
        if path in PurePosixPath(root).parents:
            return f"holds storage {name} ({root})"
        if PurePosixPath(root) in path.parents and path.relative_to(root).parts[0] in _STORAGE_FOLDERS:
            return f"belongs to storage {name}"
    return None
