"""The plan of an import: an install that exists without Paddock becomes the state of an agent. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paddock.base.frozen import frozen
from paddock.plan.actions import ExpectNewState, ReceiveState, RetireOrigin
from paddock.plan.step import Phase, Plan, Refusal, Risk, Step


@frozen
class OriginSeen:
    """An install as it was looked at. Its texts are safe to print."""

    where: str  # the machine that has it
    path: str
    files: int
    bytes: int
    owner: str
    running: Sequence[str] = ()  # units and containers that use it now
    resting: Sequence[str] = ()  # units and containers that would use it when they start
    others: Sequence[str] = ()  # processes that use it, and that no unit or container supervises
    imported_by: str | None = None  # another agent that has imported it
    variables: Sequence[str] = ()  # that it sets, and the file does not
    environment_file: str = ""
    account: str | None = None  # the account that looked, if it was not root


def planned(plan: Plan, origin: OriginSeen, used: str | None) -> Plan:
    """Return the plan of `up` with the steps that take the state from its origin.

    ``used`` says why the agent has a state already.
    """
    notes = [*plan.notes, *_notes(plan.agent, origin)]
    refusals = [*plan.refusals, *_refusals(plan.agent, origin, used)]
    if refusals:
        return Plan(plan.agent, (), refusals, notes)
    at = next((at for at, step in enumerate(plan.steps) if isinstance(step.action, ReceiveState)), None)
    if at is None:
        return replace(plan, notes=notes)  # the first part of a plan: the state is received later
    return replace(plan, steps=[*plan.steps[:at], *_steps(plan.agent, origin), *plan.steps[at:]], notes=notes)


def _steps(agent: str, origin: OriginSeen) -> Iterator[Step]:
    """Yield the steps before the state is received. Nothing is stopped before the agent can take the state."""
    title = f"check that {agent} has no state yet, and room for {size(origin.bytes)}"
    yield Step("state.check", title, "nothing is overwritten", ExpectNewState(origin.bytes), phase=Phase.STATE)
    marked = f"mark {origin.path} on {origin.where} as imported"
    stopped = f"stop {', '.join(origin.running)}, " if origin.running else ""
    kept = f"keep {', '.join((*origin.running, *origin.resting))} from starting, " if _supervised(origin) else ""
    yield Step(
        "source.retire",
        f"{stopped}{kept}{'and ' if kept else ''}{marked}",
        "two agents must not use one memory",
        RetireOrigin(origin.path),
        Risk.RESTARTS if origin.running else Risk.SAFE,
        Phase.STATE,
    )


def _supervised(origin: OriginSeen) -> bool:
    return bool(origin.running or origin.resting)


def _refusals(agent: str, origin: OriginSeen, used: str | None) -> Iterator[Refusal]:
    if used:
        hint = f"import into another agent, or delete the state of {agent} first: `paddock down`, then `paddock forget`"
        yield Refusal(used, hint, code="import.state-exists")
    if origin.imported_by:
        yield Refusal(
            f"{origin.path} on {origin.where} was already imported: {origin.imported_by} has it",
            f"two agents must not use one memory; the file {origin.path}.imported-by-paddock there says more",
            code="import.second",
        )
    if origin.others:
        yield Refusal(
            f"{origin.path} on {origin.where} is in use by {', '.join(origin.others)}",
            "end these processes there, then run the same command again: no unit and no container supervises them",
            code="import.in-use",
        )


def _notes(agent: str, origin: OriginSeen) -> Iterator[str]:
    count = f"{origin.files} files, {size(origin.bytes)}"
    yield f"{origin.path} on {origin.where} is left as it is: {count}, owner {origin.owner}; the agent gets a copy"
    if origin.variables:
        yield (
            f"its {origin.environment_file} sets {', '.join(origin.variables)}, and the file gives {agent} no such"
            f" variable; {agent} gets only what the file says, and finds the old {origin.environment_file} in its"
            " state under another name"
        )
    if origin.account:
        yield f"only processes and units of the account {origin.account} could be seen on {origin.where}"


def size(count: int) -> str:
    """Return a number of bytes for a person."""
    return f"{count / 2**20:.1f} MiB" if count >= 1 << 20 else f"{count / 2**10:.1f} KiB"
