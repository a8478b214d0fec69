"""The API's methods, one module per part of the tree. Importing this fills the table."""

from . import (
    accounts,
    backups,
    clones,
    containers,
    create,
    moves,
    settings,
    snapshots,
    storages,
    system,
    tasklist,
    volumes,
)

__all__ = [
    "accounts",
    "backups",
    "clones",
    "containers",
    "create",
    "moves",
    "settings",
    "snapshots",
    "storages",
    "system",
    "tasklist",
    "volumes",
]
