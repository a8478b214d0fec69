"""The pet: the container that owns the state of an agent."""
