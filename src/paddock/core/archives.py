"""Backups that a place makes itself: the agent is stopped for the moment, and a throwaway machine reads them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from paddock.backups.contract import LONGEST, Backup, Drill, name_at
from paddock.backups.history import from_json
from paddock.backups.verified import Verified
from paddock.base import bounded
from paddock.base.computer import state_folder, write_private
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed
from paddock.base.text import one_line
from paddock.channels import Guest
from paddock.channels.onboard import begun, started, streaming
from paddock.core import converge
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation, expect_own_id, observe, reach
from paddock.core.perform import carry_out
from paddock.core.resolve import Located, locate
from paddock.core.streams import about, sender
from paddock.onboard.state.claim import HoldLease
from paddock.onboard.stream.layout import matcher
from paddock.places.contract import Archive, Archives, PlaceSeen
from paddock.plan import verbs as plans
from paddock.plan.step import Plan, Step


@frozen
class ArchivesOf:
    """The archives of one agent. Its place makes and keeps them.

    The place keeps nothing beside an archive but a short line. So the texts and the record of the last drill are kept
    on this machine: they have the agent's memories, and everyone who may list the storage can read that line.
    """

    agent: Deployment
    place: Archives[PlaceSeen]

    @property
    def shown(self) -> str:
        backup = self.agent.spec.backup
        storage = backup.to.proxmox.storage if backup and backup.to.proxmox else "?"
        return f"storage {storage}"

    def check(self) -> None:
        self.place.check(locate(self.agent).machine_want)

    def backups(self) -> list[Backup]:
        return [_backup(each) for each in self._listed()]

    def _listed(self) -> Sequence[Archive]:
        return self.place.listed(locate(self.agent).machine_want)

    def _archive(self, backup: Backup) -> Archive:
        for each in self._listed():
            if each.name == backup.about["archive"]:
                return each
        raise PaddockError(f"the backup {backup.name} is not in {self.shown} any more")

    @contextmanager
    def read(self, backup: Backup) -> Iterator[IO[bytes]]:
        archive, agent = self._archive(backup), locate(self.agent)
        try:
            converge.converge(agent, lambda seen: self._plan_read(agent, archive, seen))
            reader = self._reader(agent)
            with streaming(reader, sender(agent, archive.about, examine=True)) as pipes:
                yield pipes.source
                result = pipes.end()
                if not result.ok:
                    raise CommandFailed(f"reading the state on {reader.name}", result)
        finally:
            self._clear(agent)

    def steps_to_read(self, backup: Backup) -> Plan:
        """Return the plan of the machine that reads a backup."""
        agent = locate(self.agent)
        return self._plan_read(agent, self._archive(backup), observe(agent))

    def _plan_read(self, agent: Located, archive: Archive, seen: Observation) -> Plan:
        return self.place.plan_read(agent.machine_want, archive, seen.place).of(agent.name)

    def _reader(self, agent: Located) -> Guest:
        """Return the channel to the reader, which has a state of this agent."""
        reader = self.place.reader(agent.machine_want, observe(agent).place)
        if reader is None:
            raise PaddockError("the machine that reads the backup cannot be reached")
        found = agent.machine_side.look(agent, reader)
        if found.state_of != str(agent.id):
            whose = one_line(found.state_of) if found.state_of else "no agent"
            raise PaddockError(f"the backup has the state of {whose}, not of {agent.id}")
        return reader

    def _clear(self, agent: Located) -> None:
        """Remove the reader and the copy of the state. If that fails, the next run does it."""
        try:
            converge.converge(agent, lambda seen: self.place.plan_clear(agent.machine_want, seen.place).of(agent.name))
        except PaddockError as error:
            agent.reporter.say(f"the machine that read the backup was not removed; `paddock up` does it: {error}")

    def remove(self, backups: Sequence[Backup]) -> None:
        names = {each.about["archive"] for each in backups}
        want = locate(self.agent).machine_want
        self.place.remove(want, [each for each in self.place.listed(want) if each.name in names])
        for each in backups:
            self._texts(each.about["archive"]).unlink(missing_ok=True)

    def doubts(self, backup: Backup) -> Sequence[str]:
        return []

    def proven(self, backup: Backup) -> Backup:
        return backup  # Proxmox signs nothing, and the file cannot ask for signatures

    def signer(self, backup: Backup) -> str:
        return "unsigned, by vzdump"

    def texts(self, backup: Backup) -> Mapping[str, str] | None:
        with suppress(OSError), self._texts(backup.about["archive"]).open("rb") as file:
            return from_json(file)
        return None

    def keep_texts(self, backup: Backup, texts: Mapping[str, str]) -> None:
        """Keep the agent's texts at the time of a backup."""
        path = self._texts(backup.about["archive"])
        write_private(path, json.dumps(texts).encode())

    def note_drill(self, drill: Drill) -> None:
        write_private(self._folder / "drill.json", drill.as_json())

    def last_drill(self) -> Drill | None:
        path = self._folder / "drill.json"
        return Drill.from_json(bounded.content(path, LONGEST)) if path.exists() else None

    @property
    def _folder(self) -> Path:
        where = hashlib.sha256(self.agent.place.traits.identity.encode()).hexdigest()[:16]
        return state_folder() / "archives" / where / str(self.agent.id)

    def _texts(self, archive: str) -> Path:
        return self._folder / f"{hashlib.sha256(archive.encode()).hexdigest()[:32]}.texts.json"


def _backup(archive: Archive) -> Backup:
    known: dict[str, Any] = {"version": None, **archive.about, "archive": archive.name}
    return Backup(name_at(archive.made), archive.made, archive.size, known)


def archives_of(agent: Deployment) -> ArchivesOf | None:
    """Return the archives of an agent, if its file has its place make the backups."""
    if agent.spec.backup is None or agent.spec.backup.to.proxmox is None:
        return None
    if agent.place.archives is None:
        raise BadInput(f"the place of {agent.name} makes no backups", hint="back up to a folder or to restic")
    return ArchivesOf(agent, agent.place.archives)


def plan_save(kept: ArchivesOf, agent: Located, seen: Observation) -> Plan:
    """Plan a backup."""
    said = {name: value for name, value in about(agent, seen.agent).items() if value is not None}
    return plans.back_up(agent.name, kept.place.plan_save(agent.machine_want, said, seen.place), seen.inside)


def save(kept: ArchivesOf, agent: Located) -> Backup:
    """Make a backup. The agent is stopped meanwhile, and started again also if the backup fails.

    That nobody writes to the state is proven by its lease: this run holds it while the place makes the archive, and
    the archive counts only after that. If this run dies, the lease is free, and the next `up` starts the agent.
    """
    seen = expect_own_id(agent, observe(agent))
    plan = plan_save(kept, agent, seen)
    parts = plans.BackupParts.of(plan)
    texts = _texts(agent, seen) if seen.agent and not plan.refusals else {}
    later = [*parts.make, *parts.confirm, *parts.start]
    carry_out(agent, Plan(agent.name, parts.stop, plan.refusals, plan.notes, then=later), seen)
    failed: PaddockError | None = None
    try:
        with _unused(agent, seen):
            carry_out(agent, Plan(agent.name, parts.make), seen)
        carry_out(agent, Plan(agent.name, parts.confirm), seen)
    except PaddockError as error:
        failed = error
    finally:
        _start(agent, parts.start, seen, failed)
    backup = kept.backups()[-1]
    if texts:
        kept.keep_texts(backup, texts)
    return backup


def _start(agent: Located, steps: Sequence[Step], seen: Observation, failed: PaddockError | None) -> None:
    """Start the agent again; then raise the error of the backup, if it failed."""
    try:
        carry_out(agent, Plan(agent.name, steps), seen)
    except PaddockError as error:
        done = "the backup failed too" if failed else "the backup was made"
        raise PaddockError(
            f"{agent.name} did not start again after its backup ({done}): {error.message}",
            hint=f"`paddock up --only {agent.name}` starts it",
        ) from failed
    if failed:
        raise failed


@contextmanager
def _unused(agent: Located, seen: Observation) -> Iterator[None]:
    """Hold the lease on the state, so that no agent starts on it; without a running machine there is none to start."""
    if seen.agent is None:
        yield
        return
    guest = reach(agent, seen)
    with guest.piped(started()) as pipes:
        held = begun(pipes, HoldLease(agent.paths.state))
        if held.said != ["held"]:
            raise CommandFailed(f"making sure that nobody writes to the state of {agent.name}", held.result)
        yield
        if not pipes.end().ok:
            raise PaddockError(f"the connection to {guest.name} was lost, so the agent may have been started meanwhile")


def _texts(agent: Located, seen: Observation) -> dict[str, str]:
    """Return the texts of the agent, for its history; none if they cannot be read: the backup has them anyway."""
    patterns = agent.recipe.keeping(agent.spec).texts
    try:
        return _read_texts(agent, reach(agent, seen), patterns) if patterns else {}
    except PaddockError as error:
        agent.reporter.say(f"the history gets no texts of this backup: {error.message}")
        return {}


def _read_texts(agent: Located, guest: Guest, patterns: Sequence[str]) -> dict[str, str]:
    with (
        streaming(guest, sender(agent, about(agent, None), only=patterns)) as pipes,
        Verified(pipes.source, matcher(list(patterns)), lambda count: None) as stream,
    ):
        while stream.read(1 << 20):
            pass
        stream.manifest()
        return stream.texts()
