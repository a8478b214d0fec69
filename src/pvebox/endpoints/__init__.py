"""The methods of the API, one module per part of the path tree. Importing this package registers them."""

from . import (
    accounts,
    backups,
    clones,
    containers,
    content,
    create,
    moves,
    pools,
    prunes,
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
    "content",
    "create",
    "moves",
    "pools",
    "prunes",
    "settings",
    "snapshots",
    "storages",
    "system",
    "tasklist",
    "volumes",
]
