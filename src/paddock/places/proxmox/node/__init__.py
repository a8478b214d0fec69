"""A node as it is read: its containers with their notes, its pools, networks and numbers."""
