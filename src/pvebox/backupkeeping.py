"""Notes, protection and retention of the backups that a job makes."""

from __future__ import annotations

from typing import Final

from pvebox import backupfiles, notestemplate, prune
from pvebox.backuplog import BackupLog
from pvebox.backuporder import JobOrder
from pvebox.cluster import Cluster
from pvebox.errors import OperationError
from pvebox.prune import Retention
from pvebox.storage import Storage

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
            notes = notestemplate.fill(order.notes_template, values)
            backupfiles.set_notes(cluster, order.node, storage, name, notes)
        if order.protected:
            log.info("marking backup as protected")
            backupfiles.set_protected(cluster, order.node, storage, name, protected=True, limit=None)
        if order.remove and not self._retention.get("keep-all"):
            log.info(f"prune older backups with retention: {prune.print_retention(self._retention, ', ')}")
            count = prune.prune(cluster, order.node, storage, self._retention, self._vmid, _KIND, log.info)
            extra = " not covered by keep-retention policy" if count else ""
            log.info(f"pruned {count} backup(s){extra}")
