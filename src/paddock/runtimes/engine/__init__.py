"""Docker and Podman: one container for all processes of an agent, supervised by a unit that requires the lease."""
