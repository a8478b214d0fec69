"""Docker and Podman: one container for all processes of an agent, supervised by a unit that is bound to the lease."""

from typing import Final

UNSEEN: Final = 75  # how create.sh ends when there is a container that the plan had not seen
