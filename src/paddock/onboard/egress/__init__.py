"""The guard of an agent's connections."""
