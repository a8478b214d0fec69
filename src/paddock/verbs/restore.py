"""Restore the state of an agent from a backup, or make a new agent of it that cannot act yet."""

from __future__ import annotations

from dataclasses import replace

from paddock.backups.contract import Backup
from paddock.base import clock
from paddock.base.errors import BadInput, PaddockError, Refused
from paddock.base.text import one_line
from paddock.core import converge, streams
from paddock.core.archives import archives_of
from paddock.core.deployment import Deployment, Incoming
from paddock.core.files import RootDisk
from paddock.core.lock import agent_lock
from paddock.core.observe import expect_own_id, observe, reach
from paddock.core.resolve import Located, locate, resolve
from paddock.core.version import NotSaved
from paddock.file.models.quantities import in_words
from paddock.plan.actions import ReceiveState
from paddock.plan.step import Plan
from paddock.plan.version import is_older
from paddock.verbs import copies, memory
from paddock.verbs.backup import Known, all_backups, among, destination_of, keeper
from paddock.verbs.backup import question as doubts


def choose(agent: Deployment, which: str | None) -> Backup:
    """Return the backup to restore, and check that it is one of this agent.

    Without a name it is the newest one that fits the agent's version. A state that was replaced has to be named.
    """
    found = all_backups(agent)
    if which is None:
        usable = [each for each in found if not each.replaced]
        fitting = [each for each in usable if not _is_newer(agent, each)]
        backup = among(agent, destination_of(agent), fitting or usable, None)
    else:
        backup = among(agent, destination_of(agent), found, which)
    about = backup.about
    if about["agent"] != str(agent.id) or about["kind"] != agent.spec.kind:
        raise BadInput(f"backup {backup.name} is of {about['agent']} ({about['kind']}), not of {agent.id}")
    if _is_newer(agent, backup):
        # An agent runs with the state of a newer version without a word, and may lose what it does not understand.
        raise BadInput(
            f"backup {backup.name} is of version {one_line(about['version'])}, and {agent.name} has"
            f" {_version(agent)}, which is older",
            hint=f"`paddock backup list {agent.name}` shows backups of other versions; `paddock upgrade` comes first",
        )
    return backup


def _is_newer(agent: Deployment, backup: Backup) -> bool:
    return is_older(_version(agent), backup.about.get("version") or "")


def _version(agent: Deployment) -> str:
    return getattr(agent.spec, "version", None) or ""


def receiving(agent: Deployment, backup: Backup, *, discards: bool = False) -> Deployment:
    """Return the agent with the backup to restore."""
    return replace(agent, incoming=replace(incoming_of(agent, backup), discards=discards))


def incoming_of(agent: Deployment, backup: Backup) -> Incoming:
    """Return the stream of a backup of an agent."""
    return Incoming.of_backup(agent, keeper(agent, backup), backup)


def plan(agent: Deployment, backup: Backup, *, discards: bool = False) -> Plan:
    """Resolve and observe an agent, and plan its restoration."""
    found = converge.plan(receiving(agent, backup, discards=discards))
    archives = archives_of(agent)
    at = next((at for at, step in enumerate(found.steps) if isinstance(step.action, ReceiveState)), None)
    if archives is None or at is None or backup.replaced:
        return found
    reading = archives.steps_to_read(backup)
    steps = [*found.steps[:at], *reading.steps, *found.steps[at:]]
    return replace(found, steps=[] if reading.refusals else steps, refusals=reading.refusals)


def question(agent: Deployment, found: Known) -> str:
    """Return what to ask a person before a backup takes the place of the agent's state."""
    backup = found.backup
    age = f"{in_words((clock.now() - backup.made).total_seconds())} old"
    about = ", ".join(each for each in (age, found.made) if each)
    asked = f"Replace the state of {agent.name} by backup {backup.name} ({about})?"
    if found.doubts:
        asked = f"{doubts(agent, found)}.\n{asked}"
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    if seen.agent is None or seen.agent.state_of is None:
        return asked
    lost = memory.since(located, reach(located, seen), int(backup.made.timestamp()))
    return f"{lost}. A backup keeps it.\n{asked}"


def restore(agent: Deployment, backup: Backup, *, discards: bool = False, made: str = "") -> str:
    """Put a backup in the place of an agent's state; return a line about the result.

    The state from before is saved first, unless a person ``discards`` it. If the restored agent does not work, the
    state from before is put back, and the agent is started with it again.
    """
    with agent_lock(agent):
        resolved = resolve(locate(receiving(agent, backup, discards=discards)))
        want = resolved.want()
        failed: PaddockError | None = None
        not_saved: NotSaved | None = None
        try:
            converge.converge(resolved, lambda seen: converge.plan_up(resolved, want, seen))
        except Refused:
            raise
        except NotSaved as failure:
            not_saved = failure
        except PaddockError as failure:
            if not _put_back(resolved):
                raise
            failed = failure
    if not_saved is not None:
        converge.up(agent)  # it was stopped
        raise not_saved
    if failed is not None:
        converge.up(agent)
        raise PaddockError(
            f"{agent.name} did not work with backup {backup.name}, and runs with its state from before again:\n"
            f"{failed.message}",
            hint=failed.hint,
        )
    by = f", {made}" if made else ""
    return f"{agent.name}: restored from backup {backup.name}{by}{_result(resolved)}"


def expect_undo(agent: Deployment) -> None:
    """Raise if there is no unfinished restore to go back from."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    if seen.agent is None or not seen.agent.kept_aside or seen.agent.goes_back:
        raise _nothing_to_undo(agent)


def _nothing_to_undo(agent: Deployment) -> BadInput:
    return BadInput(f"{agent.name} has no state from before a restore that did not end")


def undo(agent: Deployment) -> str:
    """Put the state from before an unfinished restore back; return a line about the result."""
    with agent_lock(agent):
        located = locate(agent)
        if not _put_back(located):
            raise _nothing_to_undo(agent)
    converge.up(agent)
    return f"{agent.name}: has its state from before the restore again{_result(located)}"


def _result(agent: Located) -> str:
    return f"; `paddock run {agent.name}` runs it" if agent.runtime.foreground else ", and works"


def _put_back(agent: Located) -> bool:
    """Put the state from before a restore back, if there is one; return whether there was.

    A rollback to an earlier version keeps one too, which belongs to another version of the code.
    """
    seen = expect_own_id(agent, observe(agent))
    if seen.agent is None or not seen.agent.kept_aside or seen.agent.goes_back:
        return False
    guest = reach(agent, seen)
    with agent.reporter.step("state.back", f"put the state that {agent.name} had before back"):
        streams.stop(agent, guest)
        streams.restoration(agent, guest, "back")
    return True


def copy(agent: Deployment, backup: Backup, name: str) -> Deployment:
    """Return the new agent."""
    return copies.copy_of(agent, name, incoming_of(agent, backup))


def plan_as(copy: Deployment) -> Plan:
    """Observe the place, and plan what creates the new agent."""
    _check_new(copy)
    return converge.plan(copy)


def restore_as(copy: Deployment, backup: Backup) -> str:
    """Restore a backup to a new agent, check that it works, and take it down; return what to do with it."""
    if copy.copy_of is None or copy.stand_in is None:
        raise TypeError(f"{copy.name} is not a copy with a stand-in")
    _check_new(copy)
    try:
        with copy.stand_in:
            converge.up(copy)
    except Refused:
        raise
    except PaddockError as failure:
        converge.down(copy)
        raise PaddockError(
            f"{copy.name} did not work with backup {backup.name}: {failure.message}", hint=_left(copy.name)
        ) from None
    converge.down(copy)
    copies.remove_account(copy)
    lines = [
        f"{copy.name}: has the state of backup {backup.name}, and is down. It has not acted.",
        f"To make it an agent, add it to the file like {copy.copy_of.name}, without what only one can have:",
        *_block(copy),
        f"Then `paddock up --only {copy.name}` starts it, with its schedules, hooks and tokens.",
    ]
    return "\n".join(lines)


def _check_new(copy: Deployment) -> None:
    """Refuse a name that something at the place has already."""
    located = locate(copy)
    seen = observe(located)
    parts = (converge.plan_down(located, seen, RootDisk(looked=True)), converge.plan_forget(copy)[1])
    if any(part.steps or part.refusals for part in parts):
        raise Refused(f"{copy.name} exists already on {copy.where}", hint=_left(copy.name))


def _left(name: str) -> str:
    return (
        f"if an interrupted or failed restore has left it, add {name} to the file,"
        f" and run `paddock down --only {name}` and `paddock forget {name}`"
    )


def _block(copy: Deployment) -> list[str]:
    """Return the keys in which the new agent differs from the one it is a copy of."""
    spec = copy.spec
    lines = ["  agents:", f"    {copy.name}:"]
    if spec.state.path:
        lines.append(f"      state: {{path: {spec.state.path}}}")
    if not copy.place.traits.keeps_machine:
        return [*lines, "      # no machine.vmid, hostname, net.address and net.mac, and no state.pet and state.volume"]
    lines.append(f"      user: {{name: {copy.name}, uid: {spec.user.uid}}}")
    for name, port in spec.ports().items():
        *above, key = spec.port_key(name)
        line = f"{key}: {port}"
        for part in reversed(above):
            line = f"{part}: {{{line}}}"
        lines.append(f"      {line}")
    return lines
