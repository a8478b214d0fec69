"""Backup jobs: back up several guests of a node, one after the other."""

from __future__ import annotations

from pvebox.api.errors import ApiError, OperationError
from pvebox.backups.guest import GuestBackup
from pvebox.backups.order import JobOrder
from pvebox.backups.prune import KEEP_ALL, Retention, parse_retention
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.storage import Storage


def run_job(cluster: Cluster, order: JobOrder, task: Task) -> None:
    """Back up the guests of an order. Raise Proxmox's `job errors` if one of the backups fails."""
    storage = _target(cluster, order)
    with cluster.backup_locks[order.node].held_by(task, order.lock_minutes):
        task.say(f"INFO: starting new backup job: {order.command_line}")
        failed = False
        for vmid in _allowed(cluster, order):
            if not GuestBackup(cluster, order, storage, _retention(order, storage), vmid, task).run():
                failed = True
            if task.aborted.is_set():
                break
        task.say(f"INFO: Backup job finished {'with errors' if failed else 'successfully'}")
        if failed:
            raise OperationError("job errors")


def storage_for_backups(cluster: Cluster, storage_id: str) -> Storage:
    """Return a storage. Raise Proxmox's error if it is not for backups."""
    storage = cluster.storage(storage_id)
    if "backup" not in storage.content:
        raise OperationError(f"can't use storage '{storage_id}' for backups - wrong content type")
    return storage


def _target(cluster: Cluster, order: JobOrder) -> Storage:
    problems = []
    storage_id = order.storage
    known = cluster.storages.get(storage_id)
    if known is None:
        problems.append(f"could not activate storage '{storage_id}': storage '{storage_id}' does not exist")
    elif known not in cluster.storages_of(order.node):
        problems.append(
            f"could not activate storage '{storage_id}': storage '{storage_id}' is not available on node '{order.node}'"
        )
    try:
        storage = storage_for_backups(cluster, storage_id)
    except ApiError as error:
        problems.append(f"could not get storage information for '{storage_id}': {error.text}")
    if problems:
        raise OperationError("\n".join(problems))
    return storage


def _retention(order: JobOrder, storage: Storage) -> Retention:
    if order.retention is not None:
        return order.retention
    return KEEP_ALL if storage.prune_backups is None else parse_retention(storage.prune_backups)


def _allowed(cluster: Cluster, order: JobOrder) -> list[int]:
    """Return the guests to back up. A missing guest stays in the list, and its backup fails."""
    guests = []
    for vmid in sorted(order.vmids):
        path = f"/vms/{vmid}"
        if cluster.configs.exists(vmid) and not cluster.access.allows(order.user, path, ["VM.Backup"]):
            if order.all:
                continue
            cluster.access.require(order.user, path, ["VM.Backup"])
        guests.append(vmid)
    return guests
