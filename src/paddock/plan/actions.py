"""The actions of steps: data, complete enough to carry a step out.

``AgentAction`` is the closed union of what ``core/`` does on an agent's machine. Each place has a closed union of its
own, whose members derive from ``PlaceAction``.
"""

from __future__ import annotations

from collections.abc import Sequence

from paddock.base.frozen import frozen


@frozen
class Ref:
    """A value that an earlier step of the same plan finds out."""

    name: str

    def __str__(self) -> str:
        return f"<{self.name}>"


class PlaceAction:
    """An action of a place, which only that place can read and perform."""


@frozen
class InstallContents:
    """Install a template's packages and code on the machine that becomes the template."""


@frozen
class CheckStateSize:
    """Check that the state's filesystem is as large as its volume."""

    size: int


@frozen
class CheckRootSize:
    """Check that the machine's root filesystem is as large as its disk."""

    size: int


@frozen
class CheckMounts:
    """Check that the agent can use the directories of the host."""


@frozen
class DeleteState:
    """Delete the state directory on a machine that Paddock did not create."""


@frozen
class InstallPackages:
    """Install packages of the distribution."""

    packages: Sequence[str]


@frozen
class InstallCode:
    """Install a code tree."""

    tree: str


@frozen
class ApplyBundle:
    """Make a bundle the current one and restart the agent."""

    bundle_id: str


@frozen
class GoBack:
    """Give the agent the configuration again that it was last verified with, and restart it."""

    bundle_id: str


@frozen
class ClaimState:
    """Make existing files the agent's state."""


@frozen
class AwaitPackages:
    """Wait until the start of the agent's container has installed the packages that it lacks."""


@frozen
class AwaitAnswer:
    """Wait until the agent is healthy, then verify it."""


@frozen
class RenameAgent:
    """Give units, configuration and state of a former id the agent's id."""

    former: str


@frozen
class RemoveAgent:
    """Remove the agent's code and configuration from its machine and keep the state."""


@frozen
class StartEngine:
    """Start the daemon of a container engine."""

    service: str


@frozen
class GetImage:
    """Load or pull an image."""

    image: str


@frozen
class TryImage:
    """Try in a throwaway container that the agent can run in an image."""

    image: str


@frozen
class PullImage:
    """Pull an image that the engine may have already. The agent's container is not touched."""

    image: str


@frozen
class CreateContainer:
    """Create the agent's container; with ``replaces`` in place of an existing one."""

    bundle_id: str
    replaces: bool


@frozen
class RemoveContainer:
    """Remove the agent's container from an engine it no longer uses."""

    engine: str


@frozen
class ReceiveState:
    """Unpack a stream beside the agent's state, and verify it."""

    incoming: str


@frozen
class ExpectNewState:
    """Check that the agent has no files yet, and room for so many bytes."""

    size: int


@frozen
class RetireOrigin:
    """Stop the install that the state comes from, and keep it from starting."""

    path: str


@frozen
class CloseAccount:
    """Let nobody log in to the account that Paddock made for the agent. The agent keeps running."""


@frozen
class StopAgent:
    """Stop the agent's processes."""


@frozen
class CheckDestination:
    """Check that a backup of the state can be written now and read again later."""


@frozen
class SaveState:
    """Save the state of an agent that is stopped, which a version of its code has left.

    With ``becomes``, another version of the code may touch the state next, which the state records.
    """

    version: str
    becomes: str | None


@frozen
class StartAgent:
    """Start the agent's processes as they are configured, and wait until it is healthy."""


@frozen
class SwapState:
    """Replace the agent's state with the received one. The old state is kept."""


@frozen
class SettleState:
    """Finish an interrupted restore that had begun to replace the state; otherwise remove the received state."""


@frozen
class RemoveFormerState:
    """Remove the agent's old state after a restore."""


@frozen
class StartStandIn:
    """Start a stand-in for the model on the machine, for as long as this run needs it."""


AgentAction = (
    InstallContents
    | CheckStateSize
    | CheckRootSize
    | CheckMounts
    | DeleteState
    | InstallPackages
    | InstallCode
    | ApplyBundle
    | GoBack
    | ClaimState
    | AwaitAnswer
    | AwaitPackages
    | RenameAgent
    | RemoveAgent
    | StartEngine
    | GetImage
    | TryImage
    | PullImage
    | CreateContainer
    | RemoveContainer
    | ReceiveState
    | ExpectNewState
    | RetireOrigin
    | CloseAccount
    | StopAgent
    | CheckDestination
    | SaveState
    | StartAgent
    | SwapState
    | SettleState
    | RemoveFormerState
    | StartStandIn
)
Action = AgentAction | PlaceAction
