"""systemd supervises: units, users and directories as its own declarative files."""
