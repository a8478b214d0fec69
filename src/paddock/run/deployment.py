"""One agent of a file with all its rooms wired together: observed, planned and carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from paddock.checks.line import as_text
from paddock.errors import BadInput, PaddockError, Refused, WorldChanged
from paddock.guests import Guest, Unreachable, expect
from paddock.guests.report import records
from paddock.places import AdoptTarget, Got, Machine, MachinePlan, Place, place_for
from paddock.plan import agent as inside
from paddock.plan import container
from paddock.plan.agent import (
    AgentSeen,
    ApplyBundle,
    AwaitAnswer,
    ClaimState,
    InstallCode,
    InstallPackages,
    RemoveAgent,
)
from paddock.plan.container import CreateContainer, GetImage, RemoveContainer, StartEngine
from paddock.plan.step import Action, CheckMounts, CheckStateSize, DeleteState, InstallContents, Plan, Refusal, Step
from paddock.process import CommandFailed
from paddock.recipes.workload import Verdict
from paddock.run import gateway as gateways
from paddock.run import mounts, strays
from paddock.run.ask import ask, healthy
from paddock.run.container import get_image, remove_container, start_engine, try_image
from paddock.run.contents import install_packages
from paddock.run.reporter import Reporter
from paddock.run.verify import ports_of_others, verify_when_settled
from paddock.run.wanted import Wanted
from paddock.runtimes import codetree, script
from paddock.runtimes.engine import UNSEEN
from paddock.spec.load import Loaded
from paddock.spec.models import AgentSpec
from paddock.visible import lines, one_line

_BOOT_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Observation:
    """What was seen of one agent, outside and inside its machine."""

    place: Any
    machine: Machine
    agent: AgentSeen | None  # None when nothing inside could be read
    unreachable: Unreachable | None = None  # why it could not be


class Deployment(Wanted):
    """One agent in its place: observed, planned and carried out."""

    # Looking

    def observe(self) -> Observation:
        """Read the place, and the inside of the machine where it can be reached."""
        seen = self.place.observe(self.name)
        machine = self.place.machine(self.machine_want, seen)
        guest = self.place.guest(self.machine_want, seen, {})
        if guest is None:
            return Observation(seen, machine, None)
        try:
            return Observation(seen, machine, self._look_inside(guest, _BOOT_SECONDS if machine.starting else 0.0))
        except Unreachable as error:
            return Observation(seen, machine, None, error)

    def _look_inside(self, guest: Guest, patience: float = 0.0) -> AgentSeen:
        argv = self.runtime.observe(self.contents.packages)
        end = time.monotonic() + patience
        while True:
            try:
                return AgentSeen.from_records(records(expect(guest, "looking at the agent", argv)))
            except Unreachable:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.5)

    # Planning

    def plan_up(self, seen: Observation) -> Plan:
        """What it takes to have the agent answer."""
        machine = self.place.up(self.machine_want, seen.place)
        notes = list(machine.notes)
        if machine.new_cache and seen.agent:
            notes += container.out_of_sight(seen.agent.container)
            seen = replace(seen, agent=replace(seen.agent, container=container.NOTHING_YET))
        refusals = [*machine.refusals, *self._refusals(seen)]
        if refusals:
            return Plan(self.name, (), refusals, notes)
        known = self._inside(seen, preinstalled=machine.preinstalled)
        agent = list(inside.up(self.name, self.want, known, adopted=machine.adopted))
        changes = [*machine.steps, *machine.manual_steps, *agent]
        if changes and not self.want.foreground and not isinstance(changes[-1].action, AwaitAnswer | StartEngine):
            # Whatever was changed, `up` ends with proof that the agent works. A started engine is looked at first.
            agent.append(inside.answer(self.name, "its machine restarts" if machine.restarts else "something changed"))
        uses = CreateContainer | ApplyBundle | AwaitAnswer
        ready = next((at for at, step in enumerate(agent) if isinstance(step.action, uses)), len(agent))
        check = [self._check_mounts()] if self.spec.mounts and (machine.manual_steps or agent) else []
        steps = [*machine.steps, *agent[:ready], *machine.manual_steps, *check, *agent[ready:]]
        return Plan(self.name, steps, (), [*notes, *self._notes_of_machine(seen)])

    def _notes_of_machine(self, seen: Observation) -> Iterator[str]:
        if seen.agent:
            yield from seen.agent.notes
            if self.container_want:
                yield from container.notes(self.container_want, seen.agent.container)

    def _check_mounts(self) -> Step:
        title = f"see that {', '.join(mount.path for mount in self.spec.mounts)} can be used"
        reason = f"the directories have to be those of uid {self.spec.user.uid}"
        return Step("mounts.check", title, reason, CheckMounts())

    def _refusals(self, seen: Observation) -> Iterator[Refusal]:
        try:
            _ = self.model_server
        except gateways.GatewayUnknown as unknown:
            yield Refusal(unknown.message, unknown.hint)
            return  # how it would be configured is not known either
        if seen.unreachable:
            # What is inside is unknown, and to guess would be to promise steps that are not needed.
            yield Refusal(seen.unreachable.message, seen.unreachable.hint)
        elif seen.agent and (refusal := inside.refusal(self.name, self.want, seen.agent)):
            yield refusal

    def _inside(self, seen: Observation, *, preinstalled: bool) -> AgentSeen:
        if seen.agent is not None:
            return seen.agent
        unread = seen.machine.status == "stopped"
        if not preinstalled:
            return AgentSeen(unread=unread)
        trees = frozenset({self.contents.tree.id} if self.contents.tree else ())
        return AgentSeen(packages=self.want.packages, trees=trees, unread=unread)

    def plan_down(self, seen: Observation) -> Plan:
        """What it takes to have no machine, or no agent on a machine that stays."""
        if self.place.keeps_machine:
            unreachable = [Refusal(seen.unreachable.message, seen.unreachable.hint)] if seen.unreachable else []
            return Plan(self.name, list(inside.down(self.name, seen.agent or AgentSeen())), unreachable)
        machine = self.place.down(self.machine_want, seen.place)
        refusals = list(machine.refusals or self._doubts(machine, seen))
        if machine.steps and seen.machine.adopted:
            remedy = f"stop the agent and move them into {self.paths.home}"
            name = f"machine {seen.machine.name}"
            refusals += strays.refusals(self, name, lambda: self.guest(seen, {}), remedy)
        return Plan(self.name, machine.steps, refusals, machine.notes)

    def _doubts(self, machine: MachinePlan, seen: Observation) -> Sequence[Refusal]:
        """Where there is nothing to do: why that is perhaps only because something could not be seen."""
        return () if machine.steps else self.place.doubts(self.machine_want, seen.place)

    def plan_cycle(self, seen: Observation) -> Plan:
        """What it takes to have no machine; refused where none could be made anew afterwards."""
        plan = self.plan_down(seen)
        if self.place.keeps_machine or plan.refusals:
            return plan
        again = self.place.up(self.machine_want, self.place.without_machine(self.machine_want, seen.place))
        return replace(plan, refusals=again.refusals, then=[*again.steps, *again.manual_steps])

    def plan_forget(self, seen: Observation) -> Plan:
        """What it takes to delete the agent's state; refused while anything of it is there."""
        if seen.unreachable:
            return Plan(self.name, refusals=[Refusal(seen.unreachable.message, seen.unreachable.hint)])
        if seen.agent and seen.agent.installed:
            return Plan(self.name, refusals=[Refusal(f"{self.name} is still installed", "run `paddock down` first")])
        if self.place.keeps_machine and seen.agent and seen.agent.planted:
            return Plan(self.name, refusals=[inside.planted(self.name, seen.agent.planted)])
        if self.place.keeps_machine and not (seen.agent and (seen.agent.state_of or seen.agent.forgotten)):
            return Plan(self.name)
        machine = self.place.forget(self.machine_want, seen.place)
        return Plan(self.name, machine.steps, machine.refusals or self._doubts(machine, seen), machine.notes)

    def plan_adopt(self, target: AdoptTarget, seen: Observation) -> Plan:
        """What it takes to have something that is there in the file's care."""
        machine = self.place.adopt(self.machine_want, target, seen.place)
        claims = [inside.claim(self.name)] if machine.adopted and self.place.keeps_machine else []
        return Plan(self.name, [*machine.steps, *claims], machine.refusals, machine.notes)

    def plan_template(self, seen: Observation, *, anew: bool) -> Plan:
        """What it takes to have the template of the agent's machine."""
        machine = self.place.rebuild(self.machine_want, seen.place, anew=anew)
        return Plan(self.name, machine.steps, machine.refusals, machine.notes)

    def plan_answer(self, reason: str) -> Plan:
        """Wait for an agent that should be working."""
        return Plan(self.name, [inside.answer(self.name, reason)])

    # Doing

    def carry_out(self, plan: Plan, seen: Observation, shared_done: Callable[[], None] = lambda: None) -> None:
        """Perform the steps of a plan in order; a plan with a refusal in it is not begun.

        ``shared_done`` is called as soon as no step is left that had better be done alone in the place.
        """
        for note in plan.notes:
            self.reporter.say(note)
        if plan.refusals:
            hints = [refusal.hint for refusal in plan.refusals if refusal.hint]
            reasons = "\n".join(refusal.reason for refusal in plan.refusals)
            raise Refused(f"{self.name}: {reasons}", hint="\n".join(hints) or None)
        self._check_privileges(plan, seen)
        got: dict[str, str] = {}
        last_alone = max((at for at, step in enumerate(plan.steps) if step.needs_place_lock), default=-1)
        for at, step in enumerate(plan.steps):
            if at > last_alone:
                shared_done()
            self.unverified = True  # also if the step fails: it may have changed something
            with self.reporter.step(step.id, step.title):
                got.update(self._perform(step.action, seen, got))
            self.unverified = not isinstance(step.action, AwaitAnswer)
            if isinstance(step.action, StartEngine):
                raise WorldChanged(f"{step.action.service} runs now")

    def _check_privileges(self, plan: Plan, seen: Observation) -> None:
        """Refuse a plan that would be cut off in the middle because a privilege is missing."""
        lacks = self.place.lacking([step.action for step in (*plan.steps, *plan.then)], seen.place)
        if lacks:
            raise Refused(
                f"{self.name}: nothing was changed, because this needs privileges that the token lacks:"
                f" {'; '.join(lacks)}",
                hint="`paddock doctor` prints the commands that grant them",
            )

    def _perform(self, action: Action, seen: Observation, got: Got) -> Got:
        match action:
            case InstallContents():
                manifest = self.contents.put_into(self.guest(seen, got), self.paths.code, self.programs)
                self.reporter.journal("manifest", lines=lines(manifest))
            case InstallPackages(packages):
                install_packages(self.guest(seen, got), packages)
            case InstallCode():
                self._install_code(self.guest(seen, got))
            case StartEngine(service):
                start_engine(self.guest(seen, got), service)
            case GetImage():
                if self.runtime.container:
                    get_image(self.guest(seen, got), self.runtime.container)
            case CreateContainer(bundle_id, replaces):
                self._create_container(self.guest(seen, got), bundle_id, replaces=replaces)
            case RemoveContainer(engine):
                remove_container(self.guest(seen, got), engine, self.name, self.paths)
            case ApplyBundle(bundle_id):
                self._apply(self.guest(seen, got), self.runtime.apply(bundle_id))
            case ClaimState():
                self._claim_state(self.guest(seen, got))
            case AwaitAnswer():
                self._await_answer(self.guest(seen, got))
            case CheckStateSize(size):
                self._check_state_size(self.guest(seen, got), size)
            case CheckMounts():
                made_for_it = not self.place.keeps_machine
                mounts.check(self.guest(seen, got), self.spec, seen.machine.owner, made_for_it=made_for_it)
            case DeleteState():
                self._delete_state(self.guest(seen, got))
            case RemoveAgent():
                argv = self.runtime.remove()
                expect(self.guest(seen, got), f"removing {self.name}", argv, deadline=180)
            case _:
                return self.place.perform(action, seen.place, got)
        return {}

    def _install_code(self, guest: Guest) -> None:
        if self.code:
            name, tree = self.code
            builder = self.runtime.container.builder(guest) if self.runtime.container else guest
            try:
                codetree.install(builder, tree, self.paths.code, self.name, name)
            except CommandFailed:
                if self.runtime.container:
                    try_image(guest, self.runtime.container, self.workload)
                raise

    def _create_container(self, guest: Guest, bundle_id: str, *, replaces: bool) -> None:
        if self.runtime.container is None:
            return
        try_image(guest, self.runtime.container, self.workload)
        try:
            self._apply(guest, self.runtime.container.create(bundle_id, replaces=replaces))
        except CommandFailed as failure:
            if failure.result.code != UNSEEN:
                raise
            # The engine's volume outlived a machine, and a container on it did too.
            raise WorldChanged("there is a container already") from failure

    def _apply(self, guest: Guest, argv: Sequence[str]) -> None:
        archive = self.bundle.archive(self.secrets, self.secret_files)
        for line in lines(expect(guest, f"configuring {self.name}", argv, stdin=archive, deadline=180)):
            self.reporter.say(line)

    def guest(self, seen: Observation, got: Got) -> Guest:
        """The channel to the agent's machine; an error where there is none."""
        if seen.unreachable and not got:
            raise seen.unreachable
        guest = self.place.guest(self.machine_want, seen.place, got)
        if guest is None:
            raise PaddockError(
                f"the machine of {self.name} cannot be reached: it is {seen.machine.status}", hint="run `paddock up`"
            )
        return guest

    def _await_answer(self, guest: Guest) -> None:
        """Wait until it is healthy, then see that all is as it should be."""
        probe = self.probes("").health
        end = time.monotonic() + self.spec.verify.timeout
        pause = 0.1
        while not (health := healthy(guest, self.paths, self.runtime, probe)).ok:
            found = self._look_inside(guest)
            failed = [unit for unit, state in found.units.items() if state == "failed"]
            if failed or time.monotonic() > end:
                what = found.said or (f"{', '.join(failed)} failed" if failed else health.evidence)
                hint: str | None = f"`paddock logs {self.name}` tells more"
                if others := ports_of_others(self, guest):
                    what, hint = others.evidence, others.hint
                raise PaddockError(f"{self.name} did not become healthy: {one_line(what)}", hint=hint)
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        report = verify_when_settled(self, guest)
        self.reporter.journal("verified", lines=[line.as_data() for line in report.lines])
        if not report.ok:
            count = f"{len(report.failed)} of {len(report.lines)}"
            raise PaddockError(f"{self.name} runs, but is not as it should be in {count}:\n{as_text(report.failed)}")
        self.reporter.say(f"{len(report.lines)} checks, and none failed")
        expect(guest, "writing down that it works", self.runtime.record_verified(self.bundle.id))

    def _check_state_size(self, guest: Guest, size: int) -> None:
        found = int(expect(guest, "measuring the state", ["df", "-B1", "--output=size", self.paths.state]).split()[-1])
        # A filesystem takes some of its volume for itself.
        if found < size * 0.9:
            raise PaddockError(
                f"the state volume was grown to {size >> 20}M, its filesystem has only {found >> 20}M",
                hint="run on the node, with the machine stopped: e2fsck -f and resize2fs on the volume",
            )

    def _claim_state(self, guest: Guest) -> None:
        user = self.spec.user
        mounted = "yes" if self.place.mounts_state else ""
        parts = [("paddock.runtimes", name) for name in ("receive.sh", "top.sh", "folders.sh", "claim.sh")]
        ids = [user.name, str(user.uid), str(user.gid or user.uid)]
        folders = [self.paths.etc.removesuffix("/current"), self.paths.code, self.paths.state_link]
        arguments = [self.paths.state, self.name, *ids, mounted, *folders]
        told = expect(guest, f"claiming the state of {self.name}", script(*parts, arguments=arguments), deadline=600)
        for line in lines(told):
            self.reporter.say(line)

    def _delete_state(self, guest: Guest) -> None:
        parts = (("paddock.runtimes", name) for name in ("receive.sh", "top.sh", "forget.sh"))
        argv = script(*parts, arguments=[self.paths.state, self.paths.state_link, self.name])
        expect(guest, f"deleting the state of {self.name}", argv, deadline=300)

    def ask(self, prompt: str, seen: Observation) -> Verdict:
        """Put a prompt to the running agent."""
        probe = self.probes(prompt).prompt
        if probe is None:
            raise BadInput(f"{self.name} is a {self.spec.kind}, which takes no prompts")
        if seen.agent is not None and not seen.agent.active:
            # Whatever else listens on its port is not to get its key.
            verb = "run" if self.runtime.foreground else "up"
            raise PaddockError(f"{self.name} does not run", hint=f"`paddock {verb}` starts it")
        return ask(self.guest(seen, {}), self.paths, probe)

    def health(self, seen: Observation) -> Verdict | None:
        """Whether the agent is healthy; None where nothing runs that could be asked."""
        if seen.agent is None or not seen.agent.active:
            return None
        return healthy(self.guest(seen, {}), self.paths, self.runtime, self.probes("").health)


@contextmanager
def deployments(
    loaded: Loaded, only: list[str], reporter: Reporter, *, patient: bool = True
) -> Iterator[list[Deployment]]:
    """The agents of a file, or the named ones, each in its place; places are shared and closed at the end."""
    unknown = sorted(set(only) - loaded.spec.agents.keys())
    if unknown:
        raise BadInput(f"there is no agent {', '.join(unknown)} in {loaded.path.name}")
    agents = loaded.spec.agents
    chosen = [name for name, agent in agents.items() if (name in only if only else agent.enabled)]
    needed = dict.fromkeys([*chosen, *(behind for name in chosen if (behind := gateway_of(agents[name])))])
    places: dict[tuple[str, str | None], Place[Any]] = {}
    try:
        for agent in (agents[name] for name in needed):
            if _where(agent) not in places:
                spec = loaded.spec.places[agent.place].on_node(agent.machine.node)
                places[_where(agent)] = place_for(agent.place, spec, loaded.folder, reporter.say, patient=patient)
        found: dict[str, Deployment] = {}
        gateways_first = sorted(needed, key=lambda name: gateway_of(agents[name]) is not None)
        for name in gateways_first:
            behind = gateway_of(agents[name])
            place = places[_where(agents[name])]
            found[name] = Deployment(name, loaded, place, reporter, found[behind] if behind else None)
        yield [found[name] for name in chosen]
    finally:
        for place in places.values():
            place.close()


def gateway_of(agent: AgentSpec) -> str | None:
    """The name of the agent that gives it models."""
    return agent.model_gateway


def _where(agent: AgentSpec) -> tuple[str, str | None]:
    """Another node of a cluster is another place: everything of an agent is on one node."""
    return agent.place, agent.machine.node
