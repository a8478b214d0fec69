"""The file: its models, its loader, and the sources of its secrets."""
