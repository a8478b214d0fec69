"""The status of an agent at one moment, with the version on its machine and newer ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Self

from paddock.base import clock, folders
from paddock.base.computer import state_folder
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import counted, one_line
from paddock.channels.onboard import ask
from paddock.core.ask import healthy
from paddock.core.converge import plan_up, resolve_or_refuse, want_of
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation, observe, reach
from paddock.core.parallel import side_by_side
from paddock.core.resolve import Located, Resolved, SecretsMissing, locate
from paddock.core.version import GoesBack
from paddock.file.models.quantities import in_words
from paddock.kinds.workload import Verdict
from paddock.onboard.code.install import ReportVersion
from paddock.plan.agent import AgentSeen
from paddock.runtimes.code import tree as package_index
from paddock.runtimes.systemd import confine
from paddock.show.table import cells, columns
from paddock.verbs.doctor import Left
from paddock.verbs.verify import BackupsAsked
from paddock.verify import backup as backup_checks

_UNITS: Final = ((40, "T"), (30, "G"), (20, "M"))
_PATIENCE: Final = 10.0  # seconds for a destination of backups to answer


@frozen
class Status:
    """One agent: its machine, its state, the holder of its lease, its health, its backups, and its pending changes."""

    agent: str
    place: str
    machine: str
    status: str
    address: str
    uptime: str
    made_from: str
    version: str  # of the code on the machine
    version_in_file: str
    image: str  # the digest of the image that the container was created from
    pulled: str
    state: str
    used: str
    mounts: str
    lease: str
    health: str
    backup: str
    drill: str
    drift: str
    schedule: str | None = None  # the failure of the last scheduled backup; None if it did not fail
    limits: str | None = None  # of the units on a host; None if there are none to have
    newer: str | None = None  # a version in the package index; None if it was not asked for

    @classmethod
    def of(cls, deployment: Deployment, backups: BackupsAsked | None = None, *, updates: bool = False) -> Self:
        """Observe an agent and ask for its health. The destination of its backups may have been asked before.

        With ``updates``, the package index is asked for a newer version.
        """
        asked = backups or BackupsAsked(deployment, _PATIENCE)
        located = locate(deployment)
        seen = observe(located, shared=True)
        health = health_of(located, seen)
        inside = seen.agent
        image = inside.container.image.runs if inside else None
        version, in_file = running_version(located, seen, health), version_in_file(located)
        held = inside is not None and "active" in inside.units.values()
        return cls(
            agent=deployment.name,
            place=deployment.spec.place,
            machine=_machine(seen),
            status=(inside.trouble if inside else "") or seen.machine.status,
            address=seen.machine.address or "-",
            uptime=in_words(seen.machine.uptime) if seen.machine.uptime > 0 else "-",
            made_from=seen.machine.made_from,
            version=version or "-",
            version_in_file=in_file or "-",
            image=image.shown if image else "-",
            pulled=(image.pulled if image else "") or "-",
            state=seen.machine.state,
            used=_used(inside.room) if inside and inside.room else "-",
            mounts=_mounts(located, seen),
            lease=(inside.holder or "-") if inside and held else "-",
            health=str(seen.unreachable or "") or _health(health, inside.said if inside else ""),
            backup=backup_checks.newest_in_words(asked.seen(), clock.now()),
            drill=backup_checks.drill_in_words(asked.seen(), clock.now()),
            drift=_drift(located, seen),
            limits=_limits(located, inside),
            newer=newer_version(located, version or in_file or "") if updates else None,
        )

    @classmethod
    def of_remnant(cls, left: Left) -> Self:
        """Return the row for something that no agent of the file uses."""
        unknown = {each.name: "-" for each in fields(cls) if each.default is not None}
        found = left.remnant
        machine = found.machine or left.place
        known = {"place": left.place, "machine": machine, "status": found.status, "state": found.state}
        return cls(**{**unknown, **known, "agent": found.name if found.is_agent else "-", "drift": left.drift})

    @property
    def is_well(self) -> bool:
        """Whether the agent runs and is healthy."""
        return (self.status, self.health) == ("running", "ok")

    def as_data(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def statuses(agents: Sequence[Deployment], *, updates: bool = False) -> list[Status]:
    """Return the status of each agent. All destinations of backups are asked first, and answer meanwhile."""
    asked = {agent.name: BackupsAsked(agent, _PATIENCE) for agent in agents}
    return side_by_side(agents, lambda agent: Status.of(agent, asked[agent.name], updates=updates))


def health_of(agent: Located, seen: Observation) -> Verdict | None:
    """Ask the agent for its health; None if it is not running."""
    if seen.agent is None or not seen.agent.active:
        return None
    return healthy(reach(agent, seen), agent.runtime, agent.probes("").health)


def _machine(seen: Observation) -> str:
    former = seen.machine.former
    return f"{seen.machine.name} (of {former.in_words})" if former else seen.machine.name


def _health(health: Verdict | None, said: str) -> str:
    if health is None:
        return one_line(said) or "-"
    return "ok" if health.ok else health.evidence


def _mounts(agent: Located, seen: Observation) -> str:
    """The directories of the host, and the uid and gid that have to own them there."""
    paths = ", ".join(f"{mount.path} is {mount.host}" for mount in agent.spec.mounts)
    return f"{paths}, of {seen.machine.owner}" if paths else "-"


def _drift(agent: Located, seen: Observation) -> str:
    """Summarise what `up` would change."""
    resolved = resolve_or_refuse(agent)
    if isinstance(resolved, Resolved) and isinstance(resolved.secrets, SecretsMissing):
        return resolved.secrets.error.message.split("\n")[0].rstrip(":")
    try:
        plan = plan_up(agent, want_of(resolved), seen)
    except GoesBack as found:
        return found.message
    if plan.refusals:
        return plan.refusals[0].reason
    steps = counted(len(plan.steps), "step") if plan.steps else ""
    notes = counted(len(plan.notes), "note") if plan.notes else ""
    return ", ".join(filter(None, (steps, notes))) or "-"


def _limits(agent: Located, seen: AgentSeen | None) -> str | None:
    """The limits of the agent's units. An agent of an earlier version gets them with its next change."""
    if not agent.limits_units or seen is None or not seen.installed:
        return None
    return " ".join(confine.effective(seen.limits)) or "none until its next change"


def _used(room: tuple[int, int]) -> str:
    size, used = room
    return f"{_amount(used)} of {_amount(size)}"


def _amount(size: int) -> str:
    """Return a number of bytes with the largest unit that leaves at least one digit before the point."""
    unit, letter = next(((1 << bits, letter) for bits, letter in _UNITS if size >= 1 << bits), (1 << 10, "K"))
    return f"{size / unit:.1f}{letter}"


def _widest(text: str) -> int:
    return max(map(cells, text.split("\n")))


def table(rows: list[Status], width: int | None = None) -> str:
    """Return a table with one column for each agent, or several below each other if one were wider than `width`."""
    found = [row.as_data() for row in rows]
    names = [name for name in Status.__dataclass_fields__ if any(name in row for row in found)]

    def beside(group: Sequence[Mapping[str, Any]]) -> str:
        return columns([[name, *(str(row.get(name, "-")) for row in group)] for name in names])

    tables: list[list[dict[str, Any]]] = []
    for row in found:
        if tables and (width is None or _widest(beside([*tables[-1], row])) <= width):
            tables[-1].append(row)
        else:
            tables.append([row])
    return "\n\n".join(map(beside, tables))


_OFTEN_ENOUGH: Final = timedelta(days=1)
_PATIENCE_WITH_INDEX: Final = 20.0  # seconds; `status` has to answer without a network too
UNKNOWN: Final = "unknown: the package index did not answer"


def newer_version(agent: Deployment, than: str) -> str:
    """Return the version in the package index that is newer than another; "-" if there is none."""
    if agent.spec.image_brings_code:
        return "-"  # the index does not know which versions there are as images
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    if wanted is None or wanted.local is not None:
        return "-"
    newest = _newest(wanted.name)
    if newest is None:
        return UNKNOWN
    return newest if _numbers(newest) > _numbers(than) else "-"


@cache
def _newest(package: str) -> str | None:
    """Return the newest version, from the last answer if that is recent; None if the index does not answer."""
    path = state_folder() / "newest" / f"{package}.json"
    now = clock.now()
    with suppress(OSError, ValueError, KeyError, TypeError):
        answer = json.loads(path.read_text())
        if timedelta() <= now - datetime.fromisoformat(answer["asked"]) < _OFTEN_ENOUGH:
            return str(answer["version"])
    try:
        version = package_index.newest(package, _PATIENCE_WITH_INDEX)
    except PaddockError:
        return None
    with suppress(OSError):  # without it, the index is asked again next time
        folders.make_private(path.parent)
        path.write_text(json.dumps({"version": version, "asked": now.isoformat()}))
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def running_version(agent: Located, seen: Observation, health: Verdict | None) -> str | None:
    """Return the version of the code in the agent's current bundle; None if it is not known.

    For an image that contains the code, it is the version in the agent's answer to the question of its health.
    """
    if agent.spec.image_brings_code:
        return one_line(health.version, 40) if health and health.version else None
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    if wanted is None or seen.agent is None or not seen.agent.installed:
        return None
    version = ReportVersion(agent.runtime.deployed, wanted.name.replace("-", "_"))
    return ask(reach(agent, seen), "reading the version", version, into=str) or None


def version_in_file(agent: Located) -> str | None:
    """Return the version that the file asks for; None if it asks for none."""
    if agent.spec.image_brings_code:
        asked = getattr(agent.spec, "version", None)
        return str(asked) if asked else None
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    return wanted.version if wanted else None
