"""The methods of the API, one module per part of the path tree. Importing this package registers them."""

from pvebox.methods.access import acl, groups, pools, roles, tickets, tokens, users  # noqa: F401
from pvebox.methods.cluster import clusterconfig, ha, system, tasklist  # noqa: F401
from pvebox.methods.containers import clones, containers, create, migrate, moves, settings, snapshots, volumes  # noqa: F401
from pvebox.methods.storage import backups, content, jobs, storageconfig, storages, uploads  # noqa: F401
