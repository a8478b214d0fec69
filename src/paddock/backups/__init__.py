"""Where backups are kept: a folder or a restic repository."""
