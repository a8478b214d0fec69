"""One agent of a file with all its rooms wired together: observed, planned and carried out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from paddock.errors import BadInput, PaddockError, Refused
from paddock.guests import Guest, Unreachable, expect
from paddock.places import Got, Machine, MachineWant, Place, place_for
from paddock.plan import agent as inside
from paddock.plan.agent import AgentSeen, AgentWant, ApplyBundle, AwaitAnswer, InstallCode, RemoveAgent
from paddock.plan.step import Action, Plan
from paddock.recipes import recipe_for
from paddock.recipes.workload import CodeTree, Paths, Probes, Verdict
from paddock.run.ask import ask
from paddock.run.story import Story
from paddock.runtimes import codetree, runtime_for
from paddock.runtimes.bundle import Bundle, secrets_digest
from paddock.secret import Secret
from paddock.spec.load import Loaded
from paddock.spec.secrets import resolve

_HEALTH_SECONDS: Final = 90


@dataclass(frozen=True)
class Observation:
    """What was seen of one agent, outside and inside its machine."""

    place: Any
    machine: Machine
    agent: AgentSeen | None  # None when nothing inside could be read
    problem: str | None = None


class Deployment:
    """One agent in its place."""

    def __init__(self, name: str, loaded: Loaded, place: Place[Any], story: Story) -> None:
        self.name = name
        self.spec = loaded.spec.agents[name]
        self.place = place
        self.runtime = runtime_for(self.spec.runtime)
        self._recipe = recipe_for(self.spec.kind)
        self._folder = loaded.folder
        self._story = story

    @property
    def paths(self) -> Paths:
        return self.runtime.paths(self.name)

    @property
    def machine_want(self) -> MachineWant:
        return MachineWant(self.name, self.spec, self.paths.state)

    @cached_property
    def code(self) -> CodeTree:
        return self._recipe.code(self.spec)

    @cached_property
    def bundle(self) -> Bundle:
        workload = self._recipe.workload(self.spec, self.paths, f"{self.paths.code}/{self.code.id}")
        return self.runtime.bundle(self.name, self.spec.user, workload, mounted=self.place.mounts_state)

    @cached_property
    def secrets(self) -> dict[str, Secret]:
        return resolve(self.spec.secrets, self._folder, self.spec.environment_files)

    @property
    def want(self) -> AgentWant:
        return AgentWant(
            tree=self.code.id,
            generation=self.bundle.id,
            secrets=secrets_digest(self.secrets),
            foreground=self.runtime.foreground,
        )

    # Looking

    def observe(self) -> Observation:
        """Read the place, and the inside of the machine where it can be reached."""
        seen = self.place.observe()
        machine = self.place.machine(self.machine_want, seen)
        guest = self.place.guest(self.machine_want, seen, {})
        if guest is None:
            return Observation(seen, machine, None)
        try:
            return Observation(seen, machine, self._look_inside(guest))
        except Unreachable as error:
            if self.place.keeps_machine:
                raise
            return Observation(seen, machine, None, error.message)

    def _look_inside(self, guest: Guest) -> AgentSeen:
        return AgentSeen.from_lines(expect(guest, "looking at the agent", self.runtime.observe(self.name)))

    # Planning

    def plan_up(self, seen: Observation) -> Plan:
        """What it takes to have the agent answer."""
        machine = self.place.up(self.machine_want, seen.place)
        steps = list(machine.steps)
        if not machine.refusals:
            steps += inside.up(self.name, self.want, seen.agent or AgentSeen())
        problem = [f"what is inside the machine could not be read: {seen.problem}"] if seen.problem else []
        return Plan(self.name, steps, machine.refusals, [*machine.notes, *problem])

    def plan_down(self, seen: Observation) -> Plan:
        """What it takes to have no machine, or no agent on a machine that stays."""
        if self.place.keeps_machine:
            return Plan(self.name, list(inside.down(self.name, seen.agent or AgentSeen())))
        machine = self.place.down(self.machine_want, seen.place)
        return Plan(self.name, machine.steps, machine.refusals, machine.notes)

    def plan_answer(self) -> Plan:
        """Wait for an agent that should be working."""
        return Plan(self.name, [inside.answer(self.name, "it is not healthy")])

    # Doing

    def carry_out(self, plan: Plan, seen: Observation) -> None:
        """Perform the steps of a plan in order; a plan with a refusal in it is not begun."""
        for note in plan.notes:
            self._story.say(note)
        if plan.refusals:
            hints = [refusal.hint for refusal in plan.refusals if refusal.hint]
            reasons = "\n".join(refusal.reason for refusal in plan.refusals)
            raise Refused(f"{self.name}: {reasons}", hint="\n".join(hints) or None)
        got: dict[str, str] = {}
        for step in plan.steps:
            with self._story.step(self.name, step.id, step.title):
                got.update(self._perform(step.action, seen, got))

    def _perform(self, action: Action, seen: Observation, got: Got) -> Got:
        match action:
            case InstallCode():
                codetree.install(self._guest(seen, got), self.code, self.paths.code)
            case ApplyBundle(generation):
                archive = self.bundle.archive(self.secrets)
                argv = self.runtime.apply(self.name, generation)
                expect(self._guest(seen, got), f"configuring {self.name}", argv, stdin=archive, deadline=180)
            case AwaitAnswer():
                self._await_answer(self._guest(seen, got))
            case RemoveAgent():
                argv = self.runtime.remove(self.name)
                expect(self._guest(seen, got), f"removing {self.name}", argv, deadline=180)
            case _:
                return self.place.perform(action, got)
        return {}

    def _guest(self, seen: Observation, got: Got) -> Guest:
        guest = self.place.guest(self.machine_want, seen.place, got)
        if guest is None:
            raise PaddockError(
                f"the machine of {self.name} cannot be reached: it is {seen.machine.status}", hint="run `paddock up`"
            )
        return guest

    def _await_answer(self, guest: Guest) -> None:
        probes = self._probes(self.spec.verify.prompt)
        end = time.monotonic() + _HEALTH_SECONDS
        pause = 0.1
        while not (health := ask(guest, self.paths, probes.health)).ok:
            failed = [unit for unit, state in self._look_inside(guest).units.items() if state == "failed"]
            if failed or time.monotonic() > end:
                what = f"{', '.join(failed)} failed" if failed else health.evidence
                raise PaddockError(
                    f"{self.name} did not become healthy: {what}",
                    hint=f"on its machine, `journalctl -u 'paddock-{self.name}-*'` tells more",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        answer = ask(guest, self.paths, probes.prompt)
        if not answer.ok:
            raise PaddockError(f"{self.name} runs but does not answer a prompt: {answer.evidence}")

    def _probes(self, prompt: str) -> Probes:
        return self._recipe.probes(self.spec, prompt, conversation=f"paddock-{uuid.uuid4()}")

    def ask(self, prompt: str, seen: Observation) -> Verdict:
        """Put a prompt to the running agent."""
        return ask(self._guest(seen, {}), self.paths, self._probes(prompt).prompt)

    def health(self, seen: Observation) -> Verdict | None:
        """Whether the agent is healthy; None where nothing runs that could be asked."""
        if seen.agent is None or not seen.agent.active:
            return None
        return ask(self._guest(seen, {}), self.paths, self._probes("").health)


@contextmanager
def deployments(loaded: Loaded, only: list[str], story: Story) -> Iterator[list[Deployment]]:
    """The agents of a file, or the named ones, each in its place; places are shared and closed at the end."""
    unknown = sorted(set(only) - loaded.spec.agents.keys())
    if unknown:
        raise BadInput(f"there is no agent {', '.join(unknown)} in {loaded.path.name}")
    chosen = {name: agent for name, agent in loaded.spec.agents.items() if not only or name in only}
    places: dict[str, Place[Any]] = {}
    try:
        for agent in chosen.values():
            if agent.place not in places:
                spec = loaded.spec.places[agent.place]
                places[agent.place] = place_for(agent.place, spec, loaded.folder, story.say)
        yield [Deployment(name, loaded, places[agent.place], story) for name, agent in chosen.items()]
    finally:
        for place in places.values():
            place.close()
