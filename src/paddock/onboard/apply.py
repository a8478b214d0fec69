"""Make a bundle the current one, and go back to the one that an agent was last verified with."""

from __future__ import annotations

from paddock.onboard.agent import Agent
from paddock.onboard.configure import Received, Sent, received, received_verified
from paddock.onboard.engine.create import put_back_containers
from paddock.onboard.engine.images import dropping_unnamed, record_image
from paddock.onboard.files import remove_tree, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.systemd.units import switch_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload


@frozen
class Apply:
    """Make a bundle the current one, and start or restart the units that it changes.

    What runs in an account's terminal keeps the old bundle until it is started again.
    """

    agent: Agent
    sent: Sent

    def perform(self, _: Payload) -> list[str]:
        with received(self.agent, self.sent) as found, dropping_unnamed(self.agent, found.settings.get("ENGINE", "")):
            return switch(found)


@frozen
class GoBack:
    """Give the agent the configuration, the secrets and the container again that it was last verified with."""

    agent: Agent
    distribution: str = ""

    def perform(self, _: Payload) -> list[str]:
        with received_verified(self.agent, self.distribution) as found:
            if self.agent.manager:
                put_back_containers(self.agent, found.settings)
            return switch(found)


def switch(found: Received) -> list[str]:
    """Make a received bundle the current one, and return what a person should know."""
    if not found.agent.manager:
        told = found.prepare()
        found.make_current()
    else:
        told = switch_units(found)
    found.done()
    return told


@frozen
class RecordVerified:
    """Record that a bundle was verified: there is nothing to go back from any more."""

    agent: Agent
    bundle_id: str
    engine: str = ""

    def perform(self, _: Payload) -> None:
        if self.engine:
            record_image(self.agent, self.engine)
        write(f"{self.agent.root}/answered", f"{self.bundle_id}\n")
        remove_tree(f"{self.agent.root}/before")
