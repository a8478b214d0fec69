"""The API's methods, one module per part of the tree. Importing this fills the table."""

from . import accounts, containers, create, settings, storages, system, tasklist, volumes

__all__ = ["accounts", "containers", "create", "settings", "storages", "system", "tasklist", "volumes"]
