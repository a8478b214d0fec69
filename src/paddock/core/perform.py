"""Carrying out a plan, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paddock.base.errors import Refused
from paddock.channels import Unreachable
from paddock.core.observe import Observation, explained, reach
from paddock.core.resolve import Located
from paddock.places.contract import Got
from paddock.plan.actions import Action, AwaitAnswer, PlaceAction, PullImage, RemoveFormerState
from paddock.plan.step import Plan


@dataclass
class Progress:
    """The progress of a run, over all its attempts."""

    unverified: bool = False  # a step changed something after the agent was last verified
    began: bool = False  # a step was begun
    pulled: bool = False  # the image was pulled


def carry_out(
    agent: Located,
    plan: Plan,
    seen: Observation,
    progress: Progress | None = None,
    release_place: Callable[[], None] = lambda: None,
) -> None:
    """Perform the steps of a plan in order. A plan with refusals is not begun.

    ``release_place`` is called as soon as no step is left that needs the place lock.
    """
    progress = progress or Progress()
    for note in plan.notes:
        agent.reporter.say(note)
    if plan.refusals:
        hints = [refusal.hint for refusal in plan.refusals if refusal.hint]
        reasons = "\n".join(refusal.reason for refusal in plan.refusals)
        raise Refused(f"{agent.name}: {reasons}", hint="\n".join(hints) or None)
    _check_privileges(agent, plan, seen)
    with agent.reporter.plan(plan.steps, plan.then):
        _carry_out_steps(agent, plan, seen, progress, release_place)


def _carry_out_steps(
    agent: Located, plan: Plan, seen: Observation, progress: Progress, release_place: Callable[[], None]
) -> None:
    got: dict[str, str] = {}
    last_locked = max((at for at, step in enumerate(plan.steps) if step.needs_place_lock), default=-1)
    for at, step in enumerate(plan.steps):
        if at > last_locked:
            release_place()
        pulls = isinstance(step.action, PullImage)
        leaves_the_agent = pulls or isinstance(step.action, RemoveFormerState)  # as it runs
        # Set before the step, because a failed step may have changed something.
        progress.began, progress.unverified = True, progress.unverified or not leaves_the_agent
        with agent.reporter.step(step.id, step.title):
            try:
                got.update(_perform(agent, step.action, seen, got))
            except Unreachable as lost:
                why = explained(agent, seen.place, lost)
                raise (lost if why is lost else Refused(f"{agent.name}: {why.message}", hint=why.hint)) from None
        progress.pulled = progress.pulled or pulls
        if isinstance(step.action, AwaitAnswer):
            progress.unverified = False


def _perform(agent: Located, action: Action, seen: Observation, got: Got) -> Got:
    if isinstance(action, PlaceAction):
        return agent.place.perform(action, seen.place, got)
    agent.machine_side.perform(agent, action, seen, lambda: reach(agent, seen, got))
    return {}


def _check_privileges(agent: Located, plan: Plan, seen: Observation) -> None:
    """Refuse a plan that would fail in the middle because a privilege is missing."""
    permissions = agent.place.permissions
    lacks = permissions.missing([step.action for step in (*plan.steps, *plan.then)], seen.place) if permissions else ()
    if lacks:
        raise Refused(
            f"{agent.name}: nothing was changed, because the token lacks privileges: {'; '.join(lacks)}",
            hint="`paddock doctor` prints the commands that grant them",
        )
