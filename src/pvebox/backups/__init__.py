"""Backups of containers, as vzdump makes them, and their restore."""
