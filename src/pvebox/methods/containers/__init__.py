"""API methods of containers."""
