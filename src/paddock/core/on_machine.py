"""Everything Paddock does on an agent's machine, through a guest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, assert_never

from paddock.base import clock
from paddock.base.clock import Wait
from paddock.base.errors import PaddockError, WorldChanged
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed, overheard
from paddock.base.secret import mask
from paddock.base.text import lines, one_line
from paddock.channels import Guest, Unreachable, expect
from paddock.channels.onboard import NoPython, Request, ask
from paddock.core import files as mounts
from paddock.core import streams, version
from paddock.core.container import (
    get_image,
    install_packages,
    pull_image,
    start_engine,
    try_image,
    usable_image,
)
from paddock.core.observe import Observation
from paddock.core.resolve import Located, Resolved, destination_of_states
from paddock.core.verify import (
    Unhealthy,
    expect_health,
    is_healthy,
    ports_of_others,
    quick_question,
    verify_when_healthy,
    verify_when_settled,
)
from paddock.onboard.configure import Sent
from paddock.onboard.engine.create import LeaveEngine
from paddock.onboard.facts.main import ObserveAndLook
from paddock.onboard.observe import Observe
from paddock.onboard.program import refusal
from paddock.onboard.state.claim import ClaimState, DeleteState
from paddock.onboard.systemd.account import CloseAccount
from paddock.plan import actions
from paddock.plan.actions import AgentAction
from paddock.plan.agent import AgentSeen, Ends
from paddock.runtimes.code import tree as codetree
from paddock.runtimes.engine.container import AgentContainer
from paddock.verify.line import as_text

_STOPPED_LOOKS: Final = 2  # after which a container that should run is taken for failed
_PACKAGES_SECONDS: Final = 900  # for the packages of a container, which come from the distribution's mirrors
# Actions that show a person the newest line of their programs' output.
_LONG: Final = (
    actions.InstallContents,
    actions.InstallPackages,
    actions.InstallCode,
    actions.GetImage,
    actions.PullImage,
    actions.TryImage,
    actions.CreateContainer,
)
_LOG_LINES: Final = 8
_BACK_SECONDS: Final = 20.0  # that an agent gets to be healthy with its configuration from before
_INSTALLER: Final = ("sh", "-c", "command -v apt-get || command -v dnf")
_More = TypeVar("_More")


class OnMachine:
    """The real machine side: runs the runtimes' programs through guests."""

    def look(self, agent: Located, guest: Guest, patience: float = 0.0) -> AgentSeen:
        wait = Wait(patience)
        while True:
            try:
                return _looked_at(agent, guest) if isinstance(agent, Resolved) else _observed(agent, guest)
            except Unreachable:
                if wait.is_over:
                    raise
            clock.sleep(0.5)

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        return is_healthy(agent, seen)

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        with overheard(agent.reporter.output) if isinstance(action, _LONG) else nullcontext():
            self._perform(agent, action, seen, reach)

    def _perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        match action:
            case actions.InstallContents():
                manifest = agent.contents.put_into(reach(), agent.paths.code, agent.programs)
                agent.reporter.journal("manifest", lines=lines(manifest))
            case actions.InstallPackages(packages):
                install_packages(reach(), packages)
            case actions.InstallCode():
                _install_code(_resolved(agent), reach())
            case actions.StartEngine(service):
                start_engine(reach(), service)
            case actions.GetImage():
                if agent.runtime.container:
                    get_image(reach(), agent.runtime.container)
            case actions.TryImage():
                if agent.runtime.container:
                    _try_image(_resolved(agent), reach(), agent.runtime.container)
            case actions.PullImage(image):
                if agent.runtime.container:
                    pulled = pull_image(reach(), agent.runtime.container)
                    what = "is now" if pulled.changed else "did not change, it is"
                    agent.reporter.say(f"{image} {what} {pulled.after.shown}")
            case actions.CreateContainer(_, replaces):
                _create_container(_resolved(agent), reach(), replaces=replaces)
            case actions.RemoveContainer(engine):
                leave = LeaveEngine(agent.runtime.deployed, engine)
                ask(reach(), f"removing the container of {agent.name}", leave, deadline=120)
            case actions.ApplyBundle():
                _apply(_resolved(agent), reach(), agent.runtime.apply)
            case actions.GoBack(bundle_id):
                self._go_back(agent, reach(), bundle_id)
            case actions.AwaitPackages():
                _await_packages(agent, reach())
            case actions.ClaimState():
                claim_state(agent, reach())
            case actions.AwaitAnswer():
                self._await_answer(_resolved(agent), reach())
            case actions.CheckStateSize(size):
                _check_size(reach(), "the state volume", agent.paths.state, size)
            case actions.CheckRootSize(size):
                _check_size(reach(), "the root disk", "/", size)
            case actions.CheckMounts():
                made_for_it = not agent.place.traits.keeps_machine
                mounts.check(reach(), agent.spec, seen.machine.owner, made_for_it=made_for_it)
            case actions.DeleteState():
                ask(reach(), f"deleting the state of {agent.name}", DeleteState(agent.runtime.deployed), deadline=3600)
            case actions.RenameAgent(former):
                renamed = agent.runtime.rename(former, mounted=agent.place.traits.mounts_state)
                ask(reach(), f"giving {former} the id {agent.id}", renamed, deadline=300)
            case actions.ExpectNewState(size):
                streams.expect_new(agent, reach(), size)
            case actions.RetireOrigin():
                streams.retire_origin(agent)
            case actions.ReceiveState():
                streams.receive_state(agent, reach())
            case actions.StartStandIn():
                if agent.stand_in:
                    agent.stand_in.start(reach())
            case actions.CloseAccount():
                ask(reach(), "closing the agent's account to logins", CloseAccount(agent.runtime.deployed))
            case actions.StopAgent():
                streams.stop(agent, reach())
            case actions.CheckDestination():
                destination_of_states(agent).check()
            case actions.SaveState():
                version.save_state(agent, reach(), action, seen.agent)
            case actions.StartAgent():
                ask(reach(), f"starting {agent.name}", agent.runtime.start(), deadline=180)
                guest = reach()
                self._await_health(agent, guest, partial(expect_health, agent, guest))
            case actions.SwapState():
                streams.restoration(agent, reach(), "swap")
            case actions.SettleState():
                streams.restoration(agent, reach(), "settle")
            case actions.RemoveFormerState():
                streams.restoration(agent, reach(), "finish")
                if agent.rollback:
                    version.record(agent, reach(), "ended")
            case actions.RemoveAgent():
                ask(reach(), f"removing {agent.name}", agent.runtime.remove(), deadline=180)
            case _:
                assert_never(action)

    def _await_health(self, agent: Located, guest: Guest, ask: Callable[[float], _More | Unhealthy]) -> _More:
        """Wait until the agent is healthy. ``ask`` gets the seconds that are left; return its last answer."""
        wait = Wait(agent.spec.verify.timeout)
        pause = 0.1
        # Waiting on the machine takes no further connections. A failed unit is noticed between two waits.
        while isinstance(asked := ask(wait.left), Unhealthy):
            found = _observed(agent, guest)
            failed = [unit for unit, state in found.units.items() if state == "failed"]
            crash = found.crashing
            if failed or crash or wait.is_over:
                what = one_line(found.said or (f"{', '.join(failed)} failed" if failed else asked.evidence))
                if crash:
                    what = _ended_again(agent, guest, crash)
                hint: str | None = f"`paddock logs {agent.name}` shows more"
                if isinstance(agent, Resolved) and (others := ports_of_others(agent, guest)):
                    what, hint = one_line(others.evidence), others.hint
                raise PaddockError(f"{agent.name} did not become healthy: {what}", hint=hint)
            clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        return asked

    def _go_back(self, agent: Located, guest: Guest, bundle_id: str) -> None:
        """Give an agent its last verified configuration, and wait until it runs.

        The file says nothing about that configuration any more, so an agent that runs and does not answer may be
        healthy: it may listen elsewhere.
        """
        back = agent.runtime.back(agent.distribution)
        ask(guest, f"bringing the configuration of {agent.name} back", back, deadline=180)
        wait = Wait(min(_BACK_SECONDS, agent.spec.verify.timeout))
        while isinstance(expect_health(agent, guest, wait.left), Unhealthy):
            found = _observed(agent, guest)
            failed = [unit for unit, state in found.units.items() if state == "failed"]
            if failed or (wait.is_over and not found.active):
                raise PaddockError(found.said or f"{', '.join(failed or found.units)} did not start")
            if wait.is_over:
                break
            clock.sleep(0.5)
        ask(guest, "recording that the agent is verified", agent.runtime.record_verified(bundle_id))

    def _await_answer(self, agent: Resolved, guest: Guest) -> None:
        """Wait until the agent is healthy, and verify it."""
        first = self._await_health(agent, guest, partial(verify_when_healthy, agent, guest))
        report = verify_when_settled(agent, guest, first)
        agent.reporter.journal("verified", lines=[line.as_data() for line in report.lines])
        if not report.ok:
            count = f"{len(report.failed)} of {len(report.lines)}"
            raise PaddockError(f"{agent.name} is running, but {count} checks failed:\n{as_text(report.failed)}")
        agent.reporter.say(f"{len(report.lines)} checks, none failed")
        if agent.version:
            version.record(agent, guest, "verified")
        ask(guest, "recording that the agent is verified", agent.runtime.record_verified(agent.bundle.id))


def _ended_again(agent: Located, guest: Guest, crash: Ends) -> str:
    """Return how often its process has ended, with the end of its log."""
    how = f" ({crash.how})" if crash.how else ""
    log = guest.run(agent.runtime.logs(_LOG_LINES, follow=False), deadline=30).out
    shown = "\n".join(f"  {mask(one_line(line))}" for line in lines(log)[-_LOG_LINES:])
    return f"its process has ended {crash.restarts + 1} times{how}; the end of its log:\n{shown}"


def _observed(agent: Located, guest: Guest) -> AgentSeen:
    try:
        return ask(guest, "observing the agent", _observe(agent), deadline=90, into=AgentSeen)
    except NoPython:
        # No agent was here: each of them needs Python, which a package brings.
        return AgentSeen(installer=guest.run(_INSTALLER).out.strip().rpartition("/")[2] or "none")


@frozen
class _Looked:
    agent: AgentSeen
    facts: dict[str, Any] | None


def _looked_at(agent: Resolved, guest: Guest) -> AgentSeen:
    """Observe an agent, and read the facts for its quick checks in the same round trip."""
    if agent.runtime.foreground:
        return _observed(agent, guest)
    both = ObserveAndLook(_observe(agent), agent.bundle.id, quick_question(agent))
    try:
        looked = ask(guest, "observing the agent", both, deadline=90, into=_Looked)
    except NoPython:
        return _observed(agent, guest)
    return replace(looked.agent, facts=looked.facts)


def _observe(agent: Located) -> Observe:
    return agent.runtime.observe(agent.packages, agent.distribution)


def _resolved(agent: Located) -> Resolved:
    """Narrow the type: steps that configure an agent are planned only for a resolved one."""
    if not isinstance(agent, Resolved):
        raise TypeError(f"{agent.name} is not resolved")
    return agent


def _install_code(agent: Resolved, guest: Guest) -> None:
    if agent.code is None:
        return
    name, tree = agent.code
    container = agent.runtime.container
    where = container.builder(guest, _usable_image(agent, guest, container)) if container else guest
    codetree.install(where, tree, agent.paths.code, str(agent.id), name)


def _usable_image(agent: Resolved, guest: Guest, container: AgentContainer) -> str:
    """Return the image that the agent's container runs."""
    try:
        return usable_image(guest, container, agent.code[1] if agent.code else None)
    except CommandFailed:
        try_image(guest, container, container.image.name, agent.workload)  # which may know a better reason
        raise


def _try_image(agent: Resolved, guest: Guest, container: AgentContainer) -> str:
    """Return the image that the agent's container runs, after it was tried."""
    image = _usable_image(agent, guest, container)
    try_image(guest, container, image, agent.workload)
    return image


def _await_packages(agent: Located, guest: Guest) -> None:
    """Wait until the packages of the agent's container are installed; its start does that, before the agent runs."""
    container = agent.runtime.container
    if container is None:
        return
    wait, stopped = Wait(_PACKAGES_SECONDS), 0
    while not guest.run(container.prepared()).ok:
        found = _observed(agent, guest)
        # Between two starts a unit is not active for a moment.
        stopped = 0 if found.active else stopped + 1
        if stopped > _STOPPED_LOOKS or wait.is_over:
            said = found.said or guest.run(container.last_words()).out.strip()
            raise PaddockError(
                f"{', '.join(container.packages)} could not be installed in the container of {agent.name}:"
                f" {one_line(said.removeprefix('paddock: '))}",
                hint=f"`paddock logs {agent.name}` shows more",
            )
        clock.sleep(1)


def _create_container(agent: Resolved, guest: Guest, *, replaces: bool) -> None:
    container = agent.runtime.container
    if container is None:
        return
    image = _try_image(agent, guest, container)
    if replaces:
        _try_code(agent, container.builder(guest, image), container)
    try:
        _apply(agent, guest, partial(container.create, replaces=replaces))
    except CommandFailed as failure:
        if failure.result.code != refusal.BUSY:
            raise
        # The engine's data volume outlived a machine, and so did a container on it.
        raise WorldChanged("the engine already has a container of this agent") from failure


def _try_code(agent: Resolved, builder: Guest, container: AgentContainer) -> None:
    """Check that the code runs in the image: the same tag may name an image with another Python than before."""
    if agent.code is None:
        return
    name, tree = agent.code
    try:
        codetree.try_in(builder, tree, agent.paths.code, name)
    except CommandFailed as failure:
        raise PaddockError(
            f"the code of {agent.name} does not run in this image of {container.image.name}: {failure.message}",
            hint="name the image by its digest (base: NAME@sha256:…); then the code is built for it",
        ) from None


def _apply(agent: Resolved, guest: Guest, request: Callable[[Sent], Request]) -> None:
    # A machine that did not exist when the run was planned may have the state of a copy, which could not act yet.
    try:
        told = _configured(agent, guest, request(agent.sent(whole=agent.copy_of is None)))
    except CommandFailed as failure:
        if failure.result.code != refusal.SET_ASIDE:
            raise
        for line in streams.restoration(agent, guest, "whole"):
            agent.reporter.say(line)
        told = _configured(agent, guest, request(agent.sent()))
    for line in told:
        agent.reporter.say(line)


def _configured(agent: Resolved, guest: Guest, request: Request) -> list[str]:
    """Send the bundle and the secrets to the machine, and return what a person should know."""
    try:
        return ask(guest, f"configuring {agent.name}", request, deadline=180, into=list[str])
    except CommandFailed as failure:
        if failure.result.code == refusal.UNSAVED:
            raise WorldChanged(f"the state of {agent.name} is one of another version") from failure
        if failure.result.code != refusal.FORMER:
            raise
        # The machine was stopped or did not exist when the run was planned.
        raise WorldChanged(f"{agent.name} is not in project {agent.project} yet") from failure


def _check_size(guest: Guest, volume: str, path: str, size: int) -> None:
    found = int(expect(guest, f"measuring {volume}", ["df", "-B1", "--output=size", path]).split()[-1])
    # A filesystem uses some of its volume for itself.
    if found < size * 0.9:
        raise PaddockError(
            f"{volume} was grown to {size >> 20}M, but its filesystem has only {found >> 20}M",
            hint="run on the node, with the machine stopped: e2fsck -f and resize2fs on the volume",
        )


def claim_state(agent: Located, guest: Guest) -> None:
    """Make existing files on the machine the agent's state."""
    mounted, user = agent.place.traits.mounts_state, agent.spec.user
    required = user.create or "uid" in user.model_fields_set
    claim = ClaimState(agent.runtime.deployed, mounted, user.name, user.uid, user.gid or user.uid, required)
    for line in ask(guest, f"claiming the state of {agent.name}", claim, deadline=600, into=list[str]):
        agent.reporter.say(line)
