"""Docker and Podman: one container for all processes of an agent, supervised by a unit that requires the lease."""

from typing import Final

UNSEEN: Final = 75  # the exit code of create.sh if a container exists that the plan did not know
