"""Changes that only root may make on a node."""
