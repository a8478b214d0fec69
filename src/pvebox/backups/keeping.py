"""Notes, protection and retention of the backups that a job makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pvebox.api.errors import OperationError, ParameterError
from pvebox.backups import files as backupfiles
from pvebox.backups import prune
from pvebox.backups.order import BackupLog, JobOrder
from pvebox.backups.prune import Retention
from pvebox.cluster.cluster import Cluster
from pvebox.guests.storage import Storage

_KIND: Final = "lxc"


class BackupKeeping:
    """The backups of one guest on the storage of a job."""

    def __init__(self, cluster: Cluster, order: JobOrder, storage: Storage, retention: Retention, vmid: int) -> None:
        self._cluster = cluster
        self._order = order
        self._storage = storage
        self._retention = retention
        self._vmid = vmid

    def require_room(self) -> None:
        """Raise if the guest has as many backups as the retention or the protection allows."""
        cluster, order, storage = self._cluster, self._order, self._storage
        if order.protected:
            limit = backupfiles.protection_limit(cluster, storage, order.user)
            if limit is not None:
                backupfiles.require_protectable(cluster, order.node, storage, self._vmid, _KIND, limit)
            return
        kept = 0 if self._retention.get("keep-all") else sum(self._retention.values())
        if not kept or order.remove:
            return
        backups = backupfiles.listing(cluster, order.node, storage, self._vmid)
        if len([backup for backup in backups if backup.kind == _KIND and not backup.protected]) >= kept:
            raise OperationError(
                f"There is a max backup limit of {kept} enforced by the target storage or the vzdump parameters."
                " Either increase the limit or delete old backups."
            )

    def settle(self, name: str, hostname: str, log: BackupLog) -> None:
        """Add notes to the new backup, protect it and prune older ones, as far as the order says so."""
        cluster, order, storage = self._cluster, self._order, self._storage
        if order.notes_template:
            log.info("adding notes to backup")
            values = {
                "cluster": cluster.name if len(cluster.nodes) > 1 else "standalone node",
                "guestname": hostname,
                "node": order.node,
                "vmid": str(self._vmid),
            }
            notes = fill(order.notes_template, values)
            backupfiles.set_notes(cluster, order.node, storage, name, notes)
        if order.protected:
            log.info("marking backup as protected")
            backupfiles.set_protected(cluster, order.node, storage, name, protected=True, limit=None)
        if order.remove and not self._retention.get("keep-all"):
            log.info(f"prune older backups with retention: {prune.print_retention(self._retention, ', ')}")
            count = prune.prune(cluster, order.node, storage, self._retention, self._vmid, _KIND, log.info)
            extra = " not covered by keep-retention policy" if count else ""
            log.info(f"pruned {count} backup(s){extra}")


_ESCAPE = re.compile(r"\\(.)")
_VARIABLE = re.compile(r"\{\{([^\s{}]+)\}\}")
_KNOWN = ("cluster", "guestname", "node", "vmid")


def require_valid(template: str) -> None:
    """Raise Proxmox's parameter error if the template has a line feed, an unknown escape or an unknown variable."""
    if "\n" in template:
        raise ParameterError({"notes-template": "contains a line feed"})
    problems = [
        f"escape sequence '\\{found[1]}' at char {found.start()}"
        for found in _ESCAPE.finditer(template)
        if found[1] not in "n\\"
    ]
    problems += [
        # Proxmox counts to the end of the match, less the length of the name.
        f"variable '{found[1]}' at char {found.end() - len(found[1])}"
        for found in _VARIABLE.finditer(template)
        if found[1] not in _KNOWN
    ]
    if problems:
        raise ParameterError({"notes-template": f"found unknown: {', '.join(problems)}\n"})


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the notes of a backup: the template with its escapes and variables replaced."""
    text = _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], template)
    return re.sub(rf"\{{\{{({'|'.join(values)})\}}\}}", lambda found: values[found[1]], text)
