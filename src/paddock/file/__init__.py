"""The file: its models, its rules, its loader, and the sources of its secrets."""
