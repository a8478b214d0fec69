"""The methods of the API, one module per part of the path tree. Importing this package registers them."""

from pvebox.methods.access import accounts, acl, groups, pools, realms, roles, tickets, tokens, users
from pvebox.methods.cluster import clusterconfig, ha, harules, nodesettings, system, tasklist
from pvebox.methods.containers import clones, containers, create, migrate, moves, settings, snapshots, volumes
from pvebox.methods.storage import backups, content, jobs, prunes, storageconfig, storages, uploads

__all__ = [
    "accounts",
    "acl",
    "backups",
    "clones",
    "clusterconfig",
    "containers",
    "content",
    "create",
    "groups",
    "ha",
    "harules",
    "jobs",
    "migrate",
    "moves",
    "nodesettings",
    "pools",
    "prunes",
    "realms",
    "roles",
    "settings",
    "snapshots",
    "storageconfig",
    "storages",
    "system",
    "tasklist",
    "tickets",
    "tokens",
    "uploads",
    "users",
    "volumes",
]
