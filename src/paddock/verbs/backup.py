"""Back up agents: their state goes from the machine, through this one, to a destination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from paddock.backups.contract import Backup, Backups, Destination, NotProven
from paddock.backups.keep import kept
from paddock.backups.open import destination_for
from paddock.backups.repository import AppendOnly
from paddock.backups.verified import UNLIMITED, check, described
from paddock.base import clock
from paddock.base.errors import BadInput, NeedsPerson, PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.base.text import counted, one_line
from paddock.channels import Guest
from paddock.core.archives import ArchivesOf, archives_of, plan_save
from paddock.core.archives import save as save_archive
from paddock.core.deployment import SPARE, Deployment
from paddock.core.lock import agent_lock
from paddock.core.notify import Notifier
from paddock.core.observe import Observation, expect_own_id, observe, reach
from paddock.core.resolve import Located, destination_of_states, keeps_streams, locate
from paddock.core.streams import about as about_agent
from paddock.core.streams import send
from paddock.plan.step import as_text
from paddock.show.reporter import in_units


@frozen
class Known:
    """A backup, with the proof of who made it if there is one, and why it may be somebody else's."""

    backup: Backup
    doubts: tuple[str, ...] = ()

    @property
    def made(self) -> str:
        """Who made it and when, in words; empty if nobody signs backups."""
        if self.backup.proof is None:
            return ""
        return f"signed by {self.backup.proof.by} on {self.backup.made:%Y-%m-%d %H:%M} UTC"


def known(agent: Deployment, backup: Backup, *, unproven: bool = False) -> Known:
    """Find out who made a backup. Raise if it must not be used; a person may allow one that is ``unproven``."""
    if backup.distrust and backup.distrust.final:
        raise Refused(
            f"backup {backup.name} of {agent.name} is not used: {backup.distrust.why}",
            hint="it may be somebody else's: name an older backup."
            " If you made it yourself, take `recipients` out of the file while you restore it",
        )
    destination = keeper(agent, backup)
    doubts = [*destination.doubts(backup)]
    try:
        found = destination.proven(backup)
    except NotProven as error:
        why = backup.distrust.why if backup.distrust else error.message
        if (backup.distrust or backup.signed) and not unproven:
            raise Refused(
                f"nobody is known to have made backup {backup.name} of {agent.name}: {why}",
                hint="name another backup; `paddock restore --unproven` uses it all the same",
            ) from None
        found = replace(backup, distrust=None)
        doubts.append(why)
    return Known(found, tuple(doubts))


def expect_certain(agent: Deployment, found: Known) -> None:
    """Raise if only a person can say that a backup is used, and nobody can be asked."""
    if found.doubts:
        raise NeedsPerson(
            question(agent, found),
            hint="run it in a terminal, which asks; or add --unproven if you know that the backup is yours",
        )


def question(agent: Deployment, found: Known) -> str:
    """Return what to say about a backup that may be somebody else's."""
    return f"backup {found.backup.name} of {agent.name} may be somebody else's: {'; '.join(found.doubts)}"


def destination_of(agent: Deployment, until: float | None = None) -> Backups:
    """Return where the backups of an agent are kept. ``until`` limits how long reading it may take."""
    return archives_of(agent) or _destination(agent, until)


def _destination(agent: Deployment, until: float | None = None) -> Destination:
    if agent.spec.backup is None:
        raise BadInput(f"{agent.name} has no backup in the file", hint="add `backup: {to: ./backups}` to the agent")
    return destination_for(agent.spec.backup, agent.folder, agent.id, agent.reporter.say, until)


def with_backups(agents: Sequence[Deployment], *, named: bool) -> list[Deployment]:
    """Return the agents whose backups are meant: those that the user has named, or all that have a backup."""
    found = [agent for agent in agents if named or agent.spec.backup]
    if not found:
        raise no_backups()
    return found


def no_backups() -> BadInput:
    """Return the error about a file in which no agent has a backup."""
    return BadInput("no agent of the file has a backup", hint="add `backup: {to: ./backups}` to the agents")


def preview(agent: Deployment) -> str:
    """Return the preview of a backup, in words."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    if archives := archives_of(agent):
        return as_text(plan_save(archives, located, seen), {})
    destination = _destination(agent)
    _with_state(located, seen)
    return f"{agent.name}: would save its state to {destination.shown}, while it runs"


def back_up(agent: Deployment) -> str:
    """Make a backup of an agent, return a line about it, and notify of a failure."""
    with Notifier.of(agent).failures("backup"):
        return make(agent)


def make(agent: Deployment) -> str:
    """Make a backup of an agent and return a line about it."""
    if archives := archives_of(agent):
        return _archived(agent, archives)
    destination = _destination(agent)
    destination.check()
    with agent_lock(agent):
        located = locate(agent)
        seen = expect_own_id(located, observe(located))
        guest = _with_state(located, seen)
        backup = _save(located, seen, guest, destination)
    about = backup.about
    agent.reporter.journal("backup", name=backup.name, to=destination.shown, files=about["files"], bytes=about["bytes"])
    for each in (*about["left_out"], *about["as_files"]):
        agent.reporter.say(f"{each['path']}: {each['why']}")
    content, size = in_units(about["bytes"]), in_units(backup.size)
    return f"{agent.name}: {_files(about)}, {content}, in backup {backup.name} ({size})"


def _archived(agent: Deployment, archives: ArchivesOf) -> str:
    archives.check()
    with agent_lock(agent):
        backup = save_archive(archives, locate(agent))
    agent.reporter.journal("backup", name=backup.name, to=archives.shown)
    return f"{agent.name}: in backup {backup.name} on {archives.shown} ({in_units(backup.size)})"


def _with_state(agent: Located, seen: Observation) -> Guest:
    """Return the channel to a machine that has the agent's state."""
    guest = reach(agent, seen)
    if seen.agent is None or seen.agent.state_of is None:
        raise PaddockError(f"{agent.name} has no state on its machine yet", hint="run `paddock up`")
    return guest


def _save(agent: Located, seen: Observation, guest: Guest, destination: Destination) -> Backup:
    """Save the state of an agent, while it may run."""
    with agent.reporter.step("backup.save", f"save the state of {agent.name} to {destination.shown}"):
        return send(agent, guest, destination, about_agent(agent, seen.agent))


def check_backup(agent: Deployment, name: str | None) -> str:
    """Read a backup back completely, the newest one unless another is named; return a line about it."""
    found_out = known(agent, among(agent, destination_of(agent), all_backups(agent), name))
    backup = found_out.backup
    destination = keeper(agent, backup)
    with (
        agent.reporter.step("backup.check", f"read backup {backup.name} of {agent.name}"),
        destination.read(backup) as stream,
    ):
        size = backup.about.get("bytes")
        limit = UNLIMITED if size is None else size + SPARE
        signed = backup.proof.manifest if backup.proof else None
        manifest = check(stream, limit, agent.reporter.progress(lambda: size), signed=signed)
    found, wanted = f"{manifest.get('agent')} ({manifest.get('kind')})", f"{agent.id} ({agent.spec.kind})"
    if found != wanted:
        raise PaddockError(f"backup {backup.name} is of {one_line(found, 200)}, not of {wanted}")
    if damaged := manifest.get("damaged"):
        told = "\n".join(one_line(f"{each['path']}: {each['why']}") for each in damaged)
        raise PaddockError(f"backup {backup.name} has {len(damaged)} damaged databases:\n{told}")
    more = "".join(f"; {each}" for each in (found_out.made, *found_out.doubts) if each)
    return f"{agent.name}: backup {backup.name} is complete: {_files(described(manifest))}{more}"


def _files(about: Mapping[str, Any]) -> str:
    return counted(about["files"], "file")


def listed(agent: Deployment) -> list[dict[str, object]]:
    """Return the facts about each backup of an agent, the oldest first."""
    now = clock.now()
    return [
        {
            "agent": agent.name,
            "backup": backup.name,
            "age": str(timedelta(seconds=int((now - backup.made).total_seconds()))),
            "files": backup.about.get("files", "-"),
            "bytes": backup.about.get("bytes", "-"),
            "size": backup.size,
            "version": backup.about["version"] or "-",
            "purpose": backup.about.get("purpose") or "-",
            "signed": backup.distrust.why if backup.distrust else keeper(agent, backup).signer(backup),
        }
        for backup in all_backups(agent)
    ]


def all_backups(agent: Deployment) -> list[Backup]:
    """Return all backups of an agent, the oldest first: also saved states where the file names no place for streams."""
    found = [*destination_of(agent).backups()]
    if not keeps_streams(agent):
        found += [each for each in destination_of_states(agent).backups() if each.replaced]
    return sorted(found, key=lambda each: each.made)


def keeper(agent: Deployment, backup: Backup) -> Backups:
    """Return the destination that has a backup of an agent."""
    return destination_of_states(agent) if backup.replaced and not keeps_streams(agent) else destination_of(agent)


def chosen(agent: Deployment, destination: Backups, name: str | None) -> Backup:
    """Return the backup of a name, or the newest one."""
    return among(agent, destination, destination.backups(), name)


def among(agent: Deployment, destination: Backups, found: Sequence[Backup], name: str | None) -> Backup:
    """Return the backup of a name among those that were listed, or the newest one that has no replaced state."""
    if not found:
        raise PaddockError(f"{agent.name} has no backup in {destination.shown}", hint=_none_hint(agent, destination))
    if name is None:
        if usable := [each for each in found if not each.replaced]:
            return usable[-1]
        names = ", ".join(each.name for each in found)
        raise BadInput(
            f"the only backups of {agent.name} have states that were replaced: {names}",
            hint="name the one that you want",
        )
    for each in found:
        if each.name == name:
            return each
    raise BadInput(f"{agent.name} has no backup {name}", hint=f"`paddock backup list {agent.name}` lists them")


def _none_hint(agent: Deployment, destination: Backups) -> str:
    make = f"`paddock backup {agent.name}` makes one"
    if not isinstance(destination, ArchivesOf):
        return make
    # Proxmox shows backups only to those who have VM.Backup on the number that they are of.
    return f"{make}; if its pet had another number, set state.pet to that number before `paddock up` creates a pet"


def _remove(agent: Deployment, destination: Backups, backups: Sequence[Backup]) -> None:
    """Remove backups, and the remains of interrupted ones."""
    try:
        destination.remove(backups)
    except AppendOnly as error:
        if backups:
            raise
        agent.reporter.say(f"the remains of interrupted backups were not removed: {error.message}")


def prune(agent: Deployment, *, dry_run: bool) -> list[str]:
    """Remove the backups that the file does not keep; return a line for each backup."""
    destination = destination_of(agent)
    assert agent.spec.backup is not None  # noqa: S101 - destination_of has checked it
    every = destination.backups()
    found = [each for each in every if each.distrust is None]
    keep = kept(found, agent.spec.backup.keep)
    if not dry_run:
        with agent.reporter.step("backup.remove", f"remove old backups of {agent.name} from {destination.shown}"):
            _remove(agent, destination, [each for each in found if each.name not in keep])
        # Somebody may have protected a backup at its destination.
        left = {each.name for each in destination.backups()} if len(keep) < len(found) else keep.keys()
        keep |= {name: ["protected"] for name in left if name not in keep}
    removed = "would remove" if dry_run else "removed"
    return [
        f"{agent.name}: keep {each.name} ({', '.join(keep[each.name])})"
        if each.name in keep
        else f"{agent.name}: {removed} {each.name}"
        for each in found
    ] + [f"{agent.name}: {each.name} does not count: {each.distrust.why}" for each in every if each.distrust]
