"""Prune backups: mark the ones that a retention keeps, and remove the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pvebox.api.errors import ApiError, OperationError
from pvebox.api.schema import FormatError, Prop, Properties, parse_property_string
from pvebox.backups import files as backupfiles
from pvebox.backups.files import Backup
from pvebox.cluster.cluster import Cluster
from pvebox.guests.storage import Storage

Retention = Mapping[str, int]
Log = Callable[[str], None]

_COUNT = Prop(type="integer", optional=True, minimum=0)
# For each option, the part of a backup's local time that makes a backup the only one of its period.
_PERIODS: Final = {
    "keep-hourly": "%H/%d/%m/%Y",
    "keep-daily": "%d/%m/%Y",
    "keep-weekly": "%V/%G",
    "keep-monthly": "%m/%Y",
    "keep-yearly": "%Y",
}
RETENTION_PARTS: Final[Properties] = {
    "keep-all": Prop(type="boolean", optional=True),
    "keep-last": _COUNT,
    **dict.fromkeys(_PERIODS, _COUNT),
}
KEEP_ALL: Final[Retention] = {"keep-all": 1}


def parse_retention(text: str) -> Retention:
    """Parse the value of `prune-backups`. Raise Proxmox's format error if it is invalid."""
    counts = {key: int(value) for key, value in parse_property_string(text, RETENTION_PARTS).items()}
    keeps_all = counts.pop("keep-all", 0)
    if not any(counts.values()):
        return KEEP_ALL
    if keeps_all:
        raise FormatError("keep-all cannot be set together with other options.\n")
    return counts


def print_retention(retention: Retention, separator: str = ",") -> str:
    """Return a retention as text, with sorted options."""
    return separator.join(f"{key}={retention[key]}" for key in sorted(retention))


RETENTION: Final = Prop(optional=True, format=parse_retention)


@dataclass
class Marked:
    """A backup and its mark: keep, remove, protected or renamed."""

    backup: Backup
    mark: str | None = None


def marked(
    cluster: Cluster, node: str, storage: Storage, keep: Retention, vmid: int | None, kind: str | None
) -> list[Marked]:
    """Return the backups of a storage with their marks. Each guest's backups are counted apart."""
    entries = []
    groups: dict[tuple[str, int | None], list[Marked]] = {}
    for backup in backupfiles.listing(cluster, node, storage, vmid):
        if kind is not None and backup.kind != kind:
            continue
        entry = Marked(backup)
        if backup.is_standard:
            groups.setdefault((backup.kind, backup.vmid), []).append(entry)
        else:
            entry.mark = "renamed"
        if backup.protected:
            entry.mark = "protected"
        entries.append(entry)
    for group in groups.values():
        _mark_group(group, keep)
    return entries


def _mark_group(group: list[Marked], keep: Retention) -> None:
    if keep.get("keep-all") or not any(keep.values()):
        for entry in group:
            entry.mark = entry.mark or "keep"
        return
    newest_first = sorted(group, key=lambda entry: -entry.backup.ctime)
    _keep(newest_first, keep.get("keep-last", 0), str)
    for option, part in _PERIODS.items():
        _keep(newest_first, keep.get(option, 0), partial(_local, part))
    for entry in newest_first:
        entry.mark = entry.mark or "remove"


def _local(part: str, when: int) -> str:
    return time.strftime(part, time.localtime(when))


def _keep(entries: Iterable[Marked], count: int, period: Callable[[int], str]) -> None:
    """Keep the newest backup of each of `count` periods, and remove the others of these periods.

    Periods in which an earlier option keeps a backup do not count. Protected backups are ignored.
    """
    if not count:
        return
    entries = list(entries)
    included = {period(entry.backup.ctime) for entry in entries if entry.mark == "keep"}
    new: set[str] = set()
    for entry in entries:
        this = period(entry.backup.ctime)
        if entry.mark is not None or this in included:
            continue
        if this in new:
            entry.mark = "remove"
            continue
        if len(new) >= count:
            break
        new.add(this)
        entry.mark = "keep"


def retention_for(storage: Storage, text: str | None) -> Retention:
    """Return the given retention, else the storage's. Raise Proxmox's error if the storage cannot be pruned."""
    if "backup" not in storage.content:
        raise OperationError(f"storage '{storage.id}' does not support backups")
    text = storage.prune_backups if text is None else text
    if text is None:
        raise OperationError(f"no prune-backups options configured for storage '{storage.id}'")
    return parse_retention(text)


def prune(
    cluster: Cluster, node: str, storage: Storage, keep: Retention, vmid: int | None, kind: str | None, log: Log
) -> int:
    """Remove the backups that a retention does not keep, and return their number."""
    removed = [entry.backup for entry in marked(cluster, node, storage, keep, vmid, kind) if entry.mark == "remove"]
    failed = False
    for backup in removed:
        log(f"removing backup '{backup.volid}'")
        try:
            backupfiles.remove(cluster, node, storage, f"backup/{backup.file}")
        except ApiError as error:
            log(f"error when removing backup '{backup.volid}' - {error.text}")
            failed = True
    if failed:
        raise OperationError("error pruning backups - check log")
    return len(removed)
