"""API methods of storages and backups."""
