"""The file: its models, how it is loaded, its sizes and its secrets."""
