"""Shell: what runs in containers and as units, and what runs on a machine before it has Python."""
