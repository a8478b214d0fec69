"""Observing an agent: its place, and the inside of its machine where that can be reached."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.channels import Guest, Unreachable, shared
from paddock.core.resolve import Located
from paddock.file.agent_id import AgentId
from paddock.file.load import Loaded
from paddock.places.contract import Got, Machine, PlaceSeen
from paddock.plan.agent import AgentSeen
from paddock.plan.namesakes import not_renamed
from paddock.plan.step import Refusal
from paddock.plan.verbs import InsideSeen

_BOOT_SECONDS: Final = 30.0


@frozen
class Observation:
    """One agent at one moment, outside and inside its machine."""

    place: PlaceSeen
    machine: Machine
    agent: AgentSeen | None  # None if nothing inside could be read
    unreachable: Unreachable | None = None  # why the inside could not be read

    @property
    def inside(self) -> InsideSeen:
        """The inside of the machine, for planning."""
        error = self.unreachable
        refusal = Refusal(error.message, error.hint, code="machine.unreachable") if error else None
        return InsideSeen(self.agent, refusal, stopped=self.machine.status == "stopped")


def observe(agent: Located, *, shared: bool = False) -> Observation:
    """Read the place, and the inside of the machine if it can be reached.

    ``shared``: an observation of the place that other agents of the run use too will do.
    """
    found = agent.place.observed(agent.machine_want) if shared else None
    return observe_inside(agent, found or agent.place.observe(agent.machine_want))


def observe_inside(agent: Located, seen: PlaceSeen) -> Observation:
    """Read the inside of a machine that was observed, if it can be reached."""
    machine = agent.place.machine(agent.machine_want, seen)
    guest = agent.place.guest(agent.machine_want, seen, {})
    if guest is None:
        return Observation(seen, machine, None)
    patience = _BOOT_SECONDS if machine.starting else 0.0
    try:
        return Observation(seen, machine, agent.machine_side.look(agent, guest, patience))
    except Unreachable as error:
        return Observation(seen, machine, None, explained(agent, seen, error))


def explained(agent: Located, seen: PlaceSeen, lost: Unreachable) -> Unreachable:
    """Return the error for a lost connection: perhaps another run has stopped, removed or replaced the machine."""
    try:
        why = agent.place.other_run(agent.machine_want, seen)
    except PaddockError:
        return lost
    return Unreachable(why, hint="run the same command again") if why else lost


def expect_own_id(agent: Located, seen: Observation) -> Observation:
    """Return the observation of an agent that is not deployed under a former id; an error if it is."""
    refusal = not_renamed(agent.name, seen.agent.namesakes) if seen.agent and not seen.agent.installed else None
    if refusal:
        raise PaddockError(refusal.reason, hint=refusal.hint)
    return seen


def expect_running(agent: Located, seen: Observation) -> Observation:
    """Return the observation of an agent that runs; an error if it does not.

    Another program that listens on the agent's port must not receive its key.
    """
    if seen.agent is not None and not seen.agent.active:
        verb = "run" if agent.runtime.foreground else "up"
        raise PaddockError(f"{agent.name} is not running", hint=f"`paddock {verb}` starts it")
    return seen


def reach(agent: Located, seen: Observation, got: Got | None = None) -> Guest:
    """Return the channel to the agent's machine; an error if there is none."""
    if seen.unreachable and not got:
        raise seen.unreachable
    if got is None and (former := seen.machine.former):
        agent.reporter.say(f"this is {former.in_words}; `paddock up` moves it to project {agent.project}")
    guest = agent.place.guest(agent.machine_want, seen.place, got or {})
    if guest is None:
        raise PaddockError(
            f"the machine of {agent.name} cannot be reached: it is {seen.machine.status}", hint="run `paddock up`"
        )
    return guest


def connecting(loaded: Loaded, only: Collection[str]) -> AbstractContextManager[None]:
    """Connect to the machine of the only agent of a run, if it is on Proxmox and was reached before.

    With several agents, the connections would take processor time from the work that they should speed up.
    """
    chosen = loaded.chosen(only)
    if len(chosen) != 1:
        return nullcontext()
    [(name, agent)] = chosen.items()
    node = loaded.spec.places[agent.place].on_node(agent.machine.node).proxmox
    if node is None:
        return nullcontext()
    return shared.connecting(f"{node.identity} {AgentId(loaded.spec.project, name)}")
