"""What Paddock has at the places of a file that no agent of the file uses, with what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paddock.errors import PaddockError
from paddock.places import Remnant
from paddock.run.copies import is_throwaway
from paddock.run.deployment import Deployment
from paddock.spec.agent_id import AgentId


@dataclass(frozen=True)
class Left:
    """A remnant and its place."""

    place: str
    project: str
    remnant: Remnant

    @property
    def drift(self) -> str:
        """Why it is here, in a few words."""
        if not self.remnant.is_agent:
            return "an interrupted build"
        return "the copy of a drill" if self._of_drill else "not in the file"

    @property
    def sentence(self) -> str:
        """What it is, and what can be done about it."""
        left = self.remnant
        machine = f"its machine {left.machine} is {left.status}" if left.status != "absent" else "it has no machine"
        if not left.is_agent:
            built = f"{self.place}: an interrupted build has left the {left.name} ({left.machine}, {left.status})"
            return f"{built}; `paddock template prune --yes` removes it"
        if self._of_drill:
            return f"{self.place}: a drill has left {left.name}: {machine}; the next `paddock drill` removes it"
        return (
            f"{self.place}: {left.name} of project {self.project} is not in the file: {machine}, its state is"
            f" {left.state}; `paddock rename {left.name} NEW` if it has another name now; otherwise write it into the"
            " file again, to use it or to remove it with `paddock down` and `paddock forget`"
        )

    @property
    def _of_drill(self) -> bool:
        return is_throwaway(AgentId(self.project, self.remnant.name))


def left_over(agents: Sequence[Deployment]) -> list[Left]:
    """Read the places of these agents, each once; return what no agent of the file uses."""
    places = {agent.where: agent for agent in agents}
    return [Left(place, agent.project, each) for place, agent in places.items() for each in _remnants(agent)]


def _remnants(agent: Deployment) -> Iterator[Remnant]:
    try:
        yield from agent.place.remnants(agent.project, {agent.name, *agent.others}, agent.place.observe())
    except PaddockError:
        return  # the verb itself says that the place cannot be read
