"""Restore the state of an agent from a backup."""

from __future__ import annotations

from dataclasses import replace

from paddock.backups import Backup
from paddock.errors import BadInput, PaddockError, Refused
from paddock.plan.actions import ReceiveState
from paddock.plan.step import Plan
from paddock.plan.upgrades import is_older
from paddock.run import restoring, verbs
from paddock.run.archives import archives_of
from paddock.run.backup import chosen, destination_of
from paddock.run.deployment import Deployment
from paddock.run.incoming import Incoming
from paddock.run.lock import agent_lock
from paddock.run.observe import Observation, expect_own_id, observe, reach
from paddock.run.resolve import Located, locate, resolve
from paddock.visible import one_line


def choose(agent: Deployment, which: str | None) -> Backup:
    """Return the backup to restore, and check that it is one of this agent."""
    backup = chosen(agent, destination_of(agent), which)
    about = backup.about
    if about["agent"] != str(agent.id) or about["kind"] != agent.spec.kind:
        raise BadInput(f"backup {backup.name} is of {about['agent']} ({about['kind']}), not of {agent.id}")
    runs, saved = getattr(agent.spec, "version", None) or "", about.get("version") or ""
    if is_older(runs, saved):
        # An agent runs with the state of a newer version without a word, and may lose what it does not understand.
        raise BadInput(
            f"backup {backup.name} is of version {one_line(saved)}, and {agent.name} has {runs}, which is older",
            hint=f"`paddock backup list {agent.name}` shows backups of other versions; `paddock upgrade` comes first",
        )
    return backup


def receiving(agent: Deployment, backup: Backup) -> Deployment:
    """Return the agent with a backup as what is to become its state."""
    return replace(agent, incoming=incoming_of(agent, backup))


def incoming_of(agent: Deployment, backup: Backup) -> Incoming:
    """Return a backup of an agent as something that becomes a state."""
    destination = destination_of(agent)
    about = backup.about
    return Incoming(
        f"backup {backup.name}",
        about.get("bytes"),  # not known of an archive that the place made
        lambda: destination.read(backup),
        length=about.get("length"),
        of={"agent": str(agent.id), "kind": agent.spec.kind},
    )


def plan(agent: Deployment, backup: Backup) -> Plan:
    """Resolve and observe an agent, and plan its restoration."""
    found = verbs.plan(receiving(agent, backup))
    archives = archives_of(agent)
    if archives is None or not found.steps:
        return found
    reading = archives.steps_to_read(backup)
    at = next(at for at, step in enumerate(found.steps) if isinstance(step.action, ReceiveState))
    steps = [*found.steps[:at], *reading.steps, *found.steps[at:]]
    return replace(found, steps=[] if reading.refusals else steps, refusals=reading.refusals)


def restore(agent: Deployment, backup: Backup) -> str:
    """Put a backup in the place of an agent's state; return a line about the result.

    If the restored agent does not work, the state from before is put back, and the agent is started with it again.
    """
    with agent_lock(agent):
        resolved = resolve(locate(receiving(agent, backup)))
        want = resolved.want()
        failed: PaddockError | None = None

        def plan_for(seen: Observation) -> Plan:
            return verbs.plan_up(resolved, want, seen)

        try:
            verbs.converge(resolved, plan_for)
        except Refused:
            raise
        except PaddockError as failure:
            if not _put_back(resolved):
                raise
            failed = failure
    if failed is not None:
        verbs.up(agent)
        raise PaddockError(
            f"{agent.name} did not work with backup {backup.name}, and runs with its state from before again:\n"
            f"{failed.message}",
            hint=failed.hint,
        )
    return f"{agent.name}: restored from backup {backup.name}{_result(resolved)}"


def undo(agent: Deployment) -> str:
    """Put the state from before an unfinished restore back; return a line about the result."""
    with agent_lock(agent):
        located = locate(agent)
        if not _put_back(located):
            raise BadInput(f"{agent.name} has no state from before a restore that did not end")
    verbs.up(agent)
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
        restoring.stop(agent, guest)
        restoring.restoration(agent, guest, "back")
    return True
