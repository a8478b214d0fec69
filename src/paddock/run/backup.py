"""Back up agents: their state goes from the machine, through this one, to a destination."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from paddock.backups import Backup, Destination
from paddock.backups.keep import kept
from paddock.backups.open import destination_for
from paddock.backups.verified import Incomplete, Verified, check
from paddock.errors import BadInput, PaddockError
from paddock.guests import Guest
from paddock.process import CommandFailed
from paddock.run.deployment import Deployment
from paddock.run.incoming import SPARE
from paddock.run.lock import agent_lock
from paddock.run.observe import Observation, expect_own_id, observe, reach
from paddock.run.progress import in_units
from paddock.run.resolve import Located, locate
from paddock.runtimes.program import program
from paddock.stream.layout import announced, matcher
from paddock.visible import one_line

_MODULES: Final = ("layout", "folders", "sparse", "database", "send")


def destination_of(agent: Deployment) -> Destination:
    """Return where the backups of an agent are kept."""
    if agent.spec.backup is None:
        raise BadInput(f"{agent.name} has no backup in the file", hint="add `backup: {to: ./backups}` to the agent")
    return destination_for(agent.spec.backup, agent.folder, agent.id, agent.reporter.say)


def back_up(agent: Deployment) -> str:
    """Make a backup of an agent and return a line about it. The agent may run meanwhile."""
    destination = destination_of(agent)
    destination.check()
    with agent_lock(agent):
        located = locate(agent)
        seen = expect_own_id(located, observe(located))
        guest = _with_state(located, seen)
        backup = save(located, guest, destination)
    about = backup.about
    agent.reporter.journal("backup", name=backup.name, to=destination.shown, files=about["files"], bytes=about["bytes"])
    for each in (*about["left_out"], *about["as_files"]):
        agent.reporter.say(f"{each['path']}: {each['why']}")
    content, size = in_units(about["bytes"]), in_units(backup.size)
    return f"{agent.name}: {about['files']} files, {content}, in backup {backup.name} ({size})"


def _with_state(agent: Located, seen: Observation) -> Guest:
    """Return the channel to a machine that has the agent's state."""
    guest = reach(agent, seen)
    if seen.agent is None or seen.agent.state_of is None:
        raise PaddockError(f"{agent.name} has no state on its machine yet", hint="run `paddock up`")
    return guest


def save(agent: Located, guest: Guest, destination: Destination) -> Backup:
    """Send the state of an agent to a destination, while it may run."""
    keeping = agent.recipe.keeping(agent.spec)
    order = {
        "home": agent.paths.home,
        "staging": agent.paths.state,
        "rebuilt": list(keeping.rebuilt),
        "databases": list(keeping.databases),
        "growing": list(keeping.growing),
        "about": {"agent": str(agent.id), "kind": agent.spec.kind, "version": getattr(agent.spec, "version", None)},
    }
    argv = ["python3", "-I", "-c", program(*(f"paddock.stream.{name}" for name in _MODULES)), json.dumps(order)]
    title = f"save the state of {agent.name} to {destination.shown}"
    with agent.reporter.step("backup.save", title), guest.piped(argv) as pipes:
        pipes.sink.close()
        progress = agent.reporter.progress(lambda: announced(pipes.said()))
        with Verified(pipes.source, matcher(list(keeping.texts)), progress) as stream:
            try:
                backup = destination.save(stream, datetime.now(UTC).replace(microsecond=0))
            except Incomplete:
                result = pipes.end()
                if not result.ok:
                    raise CommandFailed(f"sending the state of {agent.name}", result) from None
                raise
        pipes.end()
    return backup


def check_backup(agent: Deployment, name: str | None) -> str:
    """Read a backup back completely, the newest one unless another is named; return a line about it."""
    destination = destination_of(agent)
    backup = chosen(agent, destination, name)
    with (
        agent.reporter.step("backup.check", f"read backup {backup.name} of {agent.name}"),
        destination.read(backup) as stream,
    ):
        size = backup.about["bytes"]
        manifest = check(stream, size + SPARE, agent.reporter.progress(lambda: size))
    found, wanted = f"{manifest.get('agent')} ({manifest.get('kind')})", f"{agent.id} ({agent.spec.kind})"
    if found != wanted:
        raise PaddockError(f"backup {backup.name} is of {one_line(found, 200)}, not of {wanted}")
    return f"{agent.name}: backup {backup.name} is complete: {len(manifest['entries'])} files"


def listed(agent: Deployment) -> list[dict[str, object]]:
    """Return what is known of each backup of an agent, the oldest first."""
    now = datetime.now(UTC)
    return [
        {
            "agent": agent.name,
            "backup": backup.name,
            "age": str(timedelta(seconds=int((now - backup.made).total_seconds()))),
            "files": backup.about["files"],
            "bytes": backup.about["bytes"],
            "size": backup.size,
            "version": backup.about["version"] or "-",
        }
        for backup in destination_of(agent).backups()
    ]


def chosen(agent: Deployment, destination: Destination, name: str | None) -> Backup:
    """Return the backup of a name, or the newest one."""
    found = destination.backups()
    if not found:
        raise PaddockError(f"{agent.name} has no backup in {destination.shown}", hint=f"`paddock backup {agent.name}`")
    if name is None:
        return found[-1]
    for each in found:
        if each.name == name:
            return each
    raise BadInput(f"{agent.name} has no backup {name}", hint=f"`paddock backup list {agent.name}` lists them")


def prune(agent: Deployment, *, dry_run: bool) -> list[str]:
    """Remove the backups that the file does not keep; return a line for each backup."""
    destination = destination_of(agent)
    assert agent.spec.backup is not None  # noqa: S101 - destination_of has checked it
    found = destination.backups()
    keep = kept(found, agent.spec.backup.keep)
    if not dry_run:
        with agent.reporter.step("backup.remove", f"remove old backups of {agent.name} from {destination.shown}"):
            destination.remove([each for each in found if each.name not in keep])
    removed = "would remove" if dry_run else "removed"
    return [
        f"{agent.name}: keep {each.name} ({', '.join(keep[each.name])})"
        if each.name in keep
        else f"{agent.name}: {removed} {each.name}"
        for each in found
    ]
