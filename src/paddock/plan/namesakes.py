"""The plan for an agent that is deployed under a former id, and for other agents of its name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.file.agent_id import AgentId
from paddock.plan.actions import RenameAgent
from paddock.plan.step import Phase, Refusal, Risk, Step

_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]*(_[a-z0-9][a-z0-9-]*)?", re.IGNORECASE)


@frozen
class NamesakesSeen:
    """Agents of this agent's name on its machine, as the runtime's observe script reports them."""

    former: str | None = None  # the former id whose configuration, units or container are on the machine
    units: Mapping[str, str] = field(default_factory=dict)  # of the former id
    state_of_former: str | None = None  # the former id that the state belongs to
    state_of_other: str | None = None  # the id of another agent that the state belongs to
    forgotten: str | None = None  # a state whose deletion has begun under a former id
    others: frozenset[str] = frozenset()  # ids of other agents of this name

    def __post_init__(self) -> None:
        ids = filter(None, (self.former, self.state_of_former, self.state_of_other, *self.others))
        if wrong := [each for each in ids if not _ID.fullmatch(each)]:
            raise PaddockError(f"the machine's report names agents that cannot exist: {', '.join(wrong)}")

    @property
    def to_rename(self) -> str | None:
        """The former id under which anything of the agent is on the machine."""
        return self.former or self.state_of_former


def refusal(agent: str, project: str, seen: NamesakesSeen, *, installed: bool, beside_others: bool) -> Refusal | None:
    """Return why the agent cannot be brought up beside agents of its name on the machine, or None.

    ``installed`` says that the agent itself is there. ``beside_others`` says that a person wants it beside others.
    """
    if seen.former and installed:
        return Refusal(
            f"this machine has {AgentId(project, agent).in_words}, and also {_words(seen.former)}",
            "if they are two agents, `paddock up --new` keeps both;"
            f" otherwise take down the one that is not needed, with the version of Paddock that deployed {agent}",
            code="agent.twice",
        )
    if half := half_forgotten(agent, seen):
        return half
    owner = seen.state_of_other
    others = sorted({*seen.others, *([owner] if owner and AgentId.parse(owner).name == agent else [])})
    if others and not (installed or seen.to_rename or beside_others):
        return _of_another_project(AgentId.parse(others[0]))
    if owner:
        return Refusal(
            f"the state that the file names belongs to {_words(owner)}",
            _own_state_hint(AgentId.parse(owner), AgentId(project, agent)),
            code="state.of-another-agent",
        )
    return None


def _own_state_hint(owner: AgentId, agent: AgentId) -> str:
    hint = "give the agent a state of its own: state: {path: /srv/my-agent}"
    if owner.project != agent.project:
        return hint
    return f"if {owner.name} is its former name, run `paddock rename {owner.name} {agent.name}`\notherwise {hint}"


def half_forgotten(agent: str, seen: NamesakesSeen) -> Refusal | None:
    """Return the refusal for a state whose deletion began under a former id, or None."""
    if seen.forgotten is None:
        return None
    return Refusal(
        f"an earlier `paddock forget` began to delete a state of {agent} and did not finish: {seen.forgotten}",
        "delete that directory on the machine, as root",
        code="state.being-deleted",
    )


def _of_another_project(other: AgentId) -> Refusal:
    return Refusal(
        f"this machine has {other.in_words}",
        f"if it is the same agent, write `project: {other.project}`\n"
        f"if the project gets another name, run `paddock rename --from {other.project}`\n"
        "if it is another agent, run `paddock up --new` and give the new one its own state.path and user",
        code="agent.of-another-project",
    )


def not_renamed(agent: str, seen: NamesakesSeen) -> Refusal | None:
    """Return the refusal of verbs that need the agent under its own id, or None if it has no other id."""
    if seen.to_rename is None:
        return None
    before = AgentId.parse(seen.to_rename).project
    return Refusal(
        f"on its machine, {agent} {f'is still of project {before}' if before else 'has no project'}",
        "run `paddock up` first: it moves the agent to the project of the file",
        code="agent.not-renamed",
    )


def rename_steps(agent: str, project: str, seen: NamesakesSeen) -> Iterator[Step]:
    """Yield the step that gives the agent its id, if it has a former one."""
    former = seen.to_rename
    if former is None:
        return
    before = AgentId.parse(former)
    what = f"move {agent} to project {project}" if before.name == agent else f"rename {before.name} to {agent}"
    title = f"{what}: rename its units, configuration and state mark"
    reason = f"so far its project is {before.project}" if before.project else "it was deployed without a project"
    reason = reason if before.name == agent else f"so far its name is {before.name}"
    risk = Risk.RESTARTS if "active" in seen.units.values() else Risk.SAFE
    yield Step("agent.rename", title, f"{reason}; its state stays where it is", RenameAgent(former), risk, Phase.AGENT)


def moved(agent: str, seen: NamesakesSeen) -> str:
    """Return what of the agent's id changes, as a reason; empty if nothing does."""
    if seen.to_rename is None:
        return ""
    return "its project changed" if AgentId.parse(seen.to_rename).name == agent else "its name changed"


def _words(text: str) -> str:
    return AgentId.parse(text).in_words
