"""Steps that stop an agent, and save or replace its state. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.plan import version
from paddock.plan.actions import (
    ReceiveState,
    RemoveFormerState,
    SaveState,
    SettleState,
    StartStandIn,
    StopAgent,
    SwapState,
)
from paddock.plan.step import Phase, Refusal, Risk, Step

if TYPE_CHECKING:
    from paddock.plan.agent import AgentSeen, AgentWant


def refusal(agent: str, want: AgentWant, seen: AgentSeen) -> Refusal | None:
    """Return why the agent cannot be restarted, or its state cannot be replaced now, or None."""
    if want.restart and want.foreground:
        return Refusal(
            f"{agent} runs in the foreground, so only the person at its terminal can restart it",
            f"end `paddock run {agent}` with Ctrl-C, and start it again",
            code="agent.foreground",
        )
    if want.incoming and seen.goes_back and seen.upgrade and want.version != seen.upgrade.before:
        return Refusal(
            f"{agent} is on its way back from {seen.upgrade.after} to {seen.upgrade.before}",
            f"`paddock up --only {agent}` ends it",
            code="state.goes-back",
        )
    changes_version = version.differs(want.version, seen.ran) and not seen.goes_back
    if want.incoming and changes_version:
        return Refusal(
            f"the file says {want.version}, and the state of {agent} is one of {seen.ran}",
            f"`paddock up --only {agent}` changes the version first",
            code="state.other-version",
        )
    if (want.incoming or changes_version) and seen.kept_aside and not want.foreground:
        with_ran = f" with version {seen.ran} in the file" if changes_version else ""
        return Refusal(
            f"an earlier restore of {agent} did not end: {seen.kept_aside} has the state from before it",
            f"`paddock up --only {agent}`{with_ran} ends it;"
            f" `paddock restore {agent} --undo` goes back to the state from before",
            code="state.kept-aside",
        )
    return None


def version_left(want: AgentWant, seen: AgentSeen) -> str:
    """Return the version that the agent leaves, if the code that runs on its state becomes another one."""
    if seen.goes_back:
        return ""
    if version.differs(want.version, seen.ran):
        return seen.ran
    brings_code = want.version.startswith(version.IMAGE)
    if want.container and want.container.renew and brings_code and seen.container.image.outdated:
        runs = seen.container.image.runs
        return f"{version.IMAGE}{runs.reference(want.container.image)}" if runs else ""
    return ""


def steps(agent: str, want: AgentWant, seen: AgentSeen, leaves: str) -> Iterator[Step]:
    """Yield the steps before the agent is configured. ``leaves`` is the version that it leaves, if any."""
    if want.stand_in:
        title = "start a stand-in for the model on the machine"
        yield Step("model.start", title, "the copy reaches no other", StartStandIn(), phase=Phase.STATE)
    if want.incoming:
        if want.foreground and seen.kept_aside:
            yield _without_former(agent, "only the newest one is kept", Phase.STATE)
        yield from _receive(agent, want, want.incoming, seen)
    elif leaves:
        yield from version.save_steps(agent, leaves, want.version, want.saves_to, stops=bool(seen.units))
    elif want.restart and (seen.units or seen.unread):
        yield _stop(agent, "a person asked for it")


def last_steps(agent: str, want: AgentWant, seen: AgentSeen) -> Iterator[Step]:
    """Yield the step after the agent was verified. In the foreground it is not, so it keeps both states."""
    if seen.goes_back or ((want.incoming or seen.kept_aside) and not want.foreground):
        yield _without_former(agent, "the agent works without it", Phase.CLEANUP)


def _receive(agent: str, want: AgentWant, incoming: str, seen: AgentSeen) -> Iterator[Step]:
    """Yield the steps that replace the agent's state. The old state is kept until the agent works.

    It is also saved: the agent may have learned something since the backup, or with the version that it leaves.
    """
    reason = f"the agent goes back to {want.version}" if seen.goes_back else "a person asked for it"
    saves = seen.goes_back or (want.saves_replaced and seen.state_of is not None and not seen.namesakes.state_of_other)
    if saves:
        yield version.check_destination(want.saves_to, reason)
    title = f"unpack {incoming} beside the state of {agent}, and verify it"
    yield Step("state.receive", title, reason, ReceiveState(incoming), phase=Phase.STATE)
    if seen.units or seen.unread:
        yield _stop(agent, "its state is replaced")
    if saves:
        title = f"save the state that {agent} has now to {want.saves_to}"
        yield Step("state.save", title, reason, SaveState(seen.ran, None), phase=Phase.STATE)
    title = f"put it in the place of the state of {agent}, which is kept"
    yield Step("state.swap", title, reason, SwapState(), phase=Phase.STATE)


def _stop(agent: str, reason: str) -> Step:
    return Step("agent.stop", f"stop {agent}", reason, StopAgent(), Risk.RESTARTS, Phase.STATE)


def _without_former(agent: str, reason: str, phase: Phase) -> Step:
    return Step("state.finish", f"remove the state that {agent} had before", reason, RemoveFormerState(), phase=phase)


def settle(agent: str, left: str) -> Step:
    """Return the step that ends an interrupted restore."""
    reason = f"a restore was interrupted: {left} is left"
    return Step("state.settle", f"settle the state of {agent}", reason, SettleState(), phase=Phase.STATE)
