"""Change the version of an agent: save its state first, and bring version and state back if the new one fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from paddock.backups.contract import REPLACED, UPGRADE, Backup, Destination, NotProven
from paddock.base import clock
from paddock.base.errors import BadInput, PaddockError, Refused, WorldChanged
from paddock.base.text import one_line
from paddock.channels import Guest, Unreachable
from paddock.channels.onboard import ask
from paddock.core.deployment import Deployment, Incoming
from paddock.core.lock import agent_lock
from paddock.core.observe import observe, reach
from paddock.core.perform import carry_out
from paddock.core.resolve import Located, destination_of_states, destinations_of_states, keeps_streams, locate
from paddock.core.streams import about, send
from paddock.file.models.whole import RuntimeName
from paddock.onboard.state.version import RecordUpgrade
from paddock.plan import verbs as plans
from paddock.plan.actions import SaveState
from paddock.plan.agent import AgentSeen
from paddock.plan.container import ENGINES
from paddock.plan.version import Housing, Upgrade

_KEPT: Final = 2  # saved states of each agent in Paddock's own folder

# The machine says these, and they get into the file.
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
_REFERENCE: Final = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]*")
_IMAGE: Final = re.compile(rf"image ({_REFERENCE.pattern})")
_RUNTIMES: Final = frozenset({"systemd", *ENGINES})

Bring = Callable[[Deployment], str]


class RolledBack(PaddockError):
    """A change of version failed, and the agent has its version and its state from before again."""

    def __init__(self, message: str, version: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.version = version


class WentBack(PaddockError):
    """A change failed, and the agent has its configuration from before again."""


class Stays(PaddockError):
    """A rollback failed before it changed anything."""


class NotSaved(PaddockError):
    """The old state could not be saved, so it was not replaced."""


class GoesBack(PaddockError):
    """The machine records that the agent is on its way back to the version before."""

    def __init__(self, agent: str, upgrade: Upgrade) -> None:
        after, before = one_line(upgrade.after), one_line(upgrade.before)
        super().__init__(
            f"{agent} is on its way back from {after} to {before}", hint=f"`paddock up --only {agent}` ends it"
        )
        self.upgrade = upgrade


def save_state(agent: Located, guest: Guest, action: SaveState, seen: AgentSeen | None) -> None:
    """Save the state of an agent that is stopped. If its version changes, record the backup in the state."""
    destination = destination_of_states(agent)
    said = about(agent, seen) | ({"version": action.version} if action.version else {})
    at = int(clock.now().timestamp())  # the name of a backup may be of a later second
    try:
        backup = send(agent, guest, destination, {**said, "purpose": UPGRADE if action.becomes else REPLACED})
    except PaddockError as failure:
        if action.becomes or agent.rollback:
            raise
        raise NotSaved(
            f"the state of {agent.name} was not replaced, because it could not be saved first:\n{failure.message}",
            hint=f"`paddock restore {agent.name} --discard-state` replaces it without a copy",
        ) from failure
    agent.reporter.say(f"the state is saved as backup {backup.name} in {destination.shown}")
    if action.becomes is not None:
        words = {
            "from": action.version,
            "to": action.becomes,
            "backup": backup.name,
            "where": one_line(destination.shown),
            "at": at,
            **({"runtime": seen.housing.runtime, "base": seen.housing.base} if seen else {}),
        }
        record(agent, guest, "saved", **{key: str(value) for key, value in words.items()})
    if not keeps_streams(agent):
        needed = {backup.name, *([seen.upgrade.backup] if seen and seen.upgrade else [])}
        old = [each for each in destination.backups()[:-_KEPT] if each.name not in needed]
        destination.remove(old)


def record(agent: Located, guest: Guest, what: str, **facts: str) -> None:
    """Record in the state what became of a change of the version: saved, verified, back, on or ended."""
    ask(guest, f"recording the version of {agent.name}", RecordUpgrade(agent.paths.state, what, facts))


def brought_up(agent: Deployment, bring: Bring) -> str:
    """Bring an agent up. If that changes its version and fails, bring the version and the state from before back."""
    try:
        return bring(agent)
    except GoesBack as found:
        last = found.upgrade
    except (BadInput, Refused, WorldChanged, Unreachable):
        # Nothing was changed, or the world is not known: the next run continues.
        raise
    except PaddockError as failure:
        begun = _begin_to_go_back(agent, failure, bring)
        if begun is None:
            raise _configured_as_before(agent, failure) from None
        last = begun
    told = _go_back(agent, last, bring)
    if locate(agent).version == last.before:
        return told
    raise _rolled_back(agent.name, last)


def _configured_as_before(agent: Deployment, failure: PaddockError) -> PaddockError:
    """Bring the last verified configuration back, if a change of it failed; return the error to raise."""
    located = locate(agent)
    try:
        seen = observe(located)
    except PaddockError:
        return failure  # the world is not known: the next run continues
    found = seen.agent
    if found is None or not found.before or found.unproven or (found.goes_back and not found.went_back):
        return failure  # nothing was changed, or the state is not one of the version before
    try:
        carry_out(located, plans.back(agent.name, found), seen)
    except PaddockError as other:
        return PaddockError(
            f"{failure.message}\n{agent.name} does not run with its configuration from before either:\n{other.message}",
            hint=failure.hint,
        )
    return WentBack(
        f"{agent.name} runs with its configuration from before again, because the new one failed:\n{failure.message}",
        hint=failure.hint,
    )


def _rolled_back(agent: str, last: Upgrade) -> RolledBack:
    """Return the error for an agent that does not have the version in the file."""
    if not last.why:
        message = (
            f"{agent} went back from {last.after} to {last.before}, as a person asked, and the file says otherwise"
        )
        return RolledBack(message, last.before, hint=f"write {last.before} into the file")
    return RolledBack(
        f"{agent} did not work with {last.after}. It runs with {last.before} and its state from before again:\n"
        f"{last.why}",
        last.before,
        hint=f"`paddock up` with {last.after} in the file tries it again",
    )


def _begin_to_go_back(agent: Deployment, failure: PaddockError, bring: Bring) -> Upgrade | None:
    """Record that an agent goes back, if a new version has touched its state and was not verified.

    If the agent was only stopped for the new version, it is started with the old one. None if it need not go back.
    """
    located = locate(agent)
    if not located.version:
        return None
    try:
        seen = observe(located)
    except PaddockError:
        return None  # the world is not known: the next run continues
    found = seen.agent
    if found is None:
        return None
    if found.ran and found.ran != located.version and found.installed and not found.active and not found.goes_back:
        try:
            bring(as_version(agent, found.ran, found.housing))
        except PaddockError as other:
            raise PaddockError(
                f"{failure.message}\n{agent.name} was stopped, and does not start with {found.ran}:\n{other.message}",
                hint=other.hint,
            ) from None
        raise RolledBack(
            f"{agent.name} was not changed to {located.version}, and runs with {found.ran}:\n{failure.message}",
            found.ran,
            hint=failure.hint,
        )
    if found.upgrade is None or not found.unproven or found.upgrade.after != located.version:
        return None
    why = one_line(failure.message)
    record(located, reach(located, seen), "back", why=why)
    return replace(found.upgrade, back=True, why=failure.message)


def _go_back(agent: Deployment, last: Upgrade, bring: Bring) -> str:
    """Bring the version and the state from before an upgrade back."""
    try:
        return bring(as_before(agent, last))
    except (Refused, WorldChanged, Unreachable):
        raise
    except PaddockError as failure:
        why = f"\nThe reason for going back was:\n{last.why}" if last.why else ""
        if _stays(agent):
            message = f"{agent.name} cannot go back from {last.after} to {last.before}:\n{failure.message}{why}"
            raise Stays(message, hint=failure.hint) from None
        # The rest of the file may be what fails.
        failure = _configured_as_before(agent, failure)
        message = f"{agent.name} has {last.before} and its state from before again, and does not work with them:"
        if isinstance(failure, WentBack):
            message = f"{agent.name} has {last.before} and its state from before again:"
        raise PaddockError(
            f"{message}\n{failure.message}{why}", hint=failure.hint or "`paddock up` goes on from here"
        ) from None


def _stays(agent: Deployment) -> bool:
    """Record that an agent does not go back, unless its state from before the upgrade is in place already."""
    located = locate(agent)
    seen = observe(located)
    if seen.agent is None or not seen.agent.goes_back or seen.agent.went_back:
        return False
    record(located, reach(located, seen), "on")
    return True


def begin_rollback(agent: Deployment) -> None:
    """Record that an agent goes back to the version before: from now on, every `up` leads there."""
    with agent_lock(agent):
        located = locate(agent)
        guest = reach(located, observe(located))
        with agent.reporter.step("rollback.begin", f"record that {agent.name} goes back"):
            record(located, guest, "back", why="")


def as_before(agent: Deployment, last: Upgrade) -> Deployment:
    """Return an agent as it was before an upgrade. Its backup from then becomes its state."""
    incoming = Incoming.of_backup(agent, *_saved(agent, last))
    return replace(as_version(agent, last.before, last.housing), incoming=incoming, rollback=last)


def _saved(agent: Deployment, last: Upgrade) -> tuple[Destination, Backup]:
    """Return the backup of the state from before an upgrade."""
    for destination in destinations_of_states(agent):
        for backup in destination.backups():
            if backup.name == last.backup and backup.about["agent"] == str(agent.id):
                return destination, _proven(agent, destination, backup)
    raise PaddockError(
        f"the state of {agent.name} from before the upgrade to {last.after} is not here:"
        f" backup {last.backup} was saved to {last.where}",
        hint="run the same command on the machine that has it, with the same `backup` in the file",
    )


def _proven(agent: Deployment, destination: Destination, backup: Backup) -> Backup:
    """Return a backup with the proof of who made it. One that is older than the first signed one has none."""
    try:
        return destination.proven(backup)
    except NotProven as error:
        if backup.distrust or backup.signed:
            raise Refused(
                f"nobody is known to have made backup {backup.name} of {agent.name}: {error.message}",
                hint="`paddock restore --unproven` uses it all the same",
            ) from None
        agent.reporter.say(f"backup {backup.name} is from before backups were signed")
        return backup


def as_version(agent: Deployment, version: str, housing: Housing) -> Deployment:
    """Return an agent with another version of its code, in the runtime and the base of that version."""
    if housing.runtime in _RUNTIMES:
        runtime = RuntimeName(housing.runtime)
        agent = replace(agent, spec=agent.spec.model_copy(update={"runtime": runtime}))
    if image := image_of(version):
        # The version in the file is that of another image.
        unknown = {"version": None} if "version" in type(agent.spec).model_fields else {}
        return _in_container(agent, unknown, image=image)
    if not _VERSION.fullmatch(version):
        raise PaddockError(
            f"{agent.name} ran with {one_line(version)}, which Paddock cannot install again by itself",
            hint="write its package or image into the file, then run `paddock up`",
        )
    known = {"version": version, "package": None}
    if moves_to(agent, housing):
        return _in_container(agent, known, base=housing.base)
    return replace(agent, spec=agent.spec.model_copy(update=known))


def moves_to(agent: Deployment, housing: Housing) -> bool:
    """Whether the file names another image than the base that the code is to run in."""
    if not _REFERENCE.fullmatch(housing.base):
        return False
    container = locate(agent).runtime.container
    return container is not None and (container.brings_code or container.image.name != housing.base)


def _in_container(agent: Deployment, update: Mapping[str, str | None], **image: str) -> Deployment:
    """Return an agent with this image or this base, by a name that the engine of its machine knows."""
    container = agent.spec.container.model_copy(update={"image": None, "base": None, "archive": None, **image})
    return replace(agent, spec=agent.spec.model_copy(update={"container": container, **update}))


def image_of(version: str) -> str | None:
    """Return the image that a version is, or None if it is one of a package."""
    found = _IMAGE.fullmatch(version)
    return found[1] if found else None
