"""Restore a backup to a new agent beside the one it is of. Until a person says `up`, the new agent cannot act."""

from __future__ import annotations

from paddock.backups import Backup
from paddock.errors import PaddockError, Refused
from paddock.plan.step import Plan
from paddock.run import copies, verbs
from paddock.run.deployment import Deployment
from paddock.run.observe import observe
from paddock.run.resolve import locate
from paddock.run.restore import incoming_of
from paddock.run.strays import RootDisk


def copy(agent: Deployment, backup: Backup, name: str) -> Deployment:
    """Return the new agent."""
    return copies.copy_of(agent, name, incoming_of(agent, backup))


def plan_as(copy: Deployment) -> Plan:
    """Observe the place, and plan what creates the new agent."""
    _check_new(copy)
    return verbs.plan(copy)


def restore_as(copy: Deployment, backup: Backup) -> str:
    """Restore a backup to a new agent, check that it works, and take it down; return what to do with it."""
    if copy.copy_of is None or copy.stand_in is None:
        raise TypeError(f"{copy.name} is not a copy with a stand-in")
    _check_new(copy)
    try:
        with copy.stand_in:
            verbs.up(copy)
    except Refused:
        raise
    except PaddockError as failure:
        verbs.down(copy)
        raise PaddockError(
            f"{copy.name} did not work with backup {backup.name}: {failure.message}", hint=_left(copy.name)
        ) from None
    verbs.down(copy)
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
    parts = (verbs.plan_down(located, seen, RootDisk(looked=True)), verbs.plan_forget(copy)[1])
    if any(part.steps or part.refusals for part in parts):
        raise Refused(f"{copy.name} exists already on {copy.where}", hint=_left(copy.name))


def _left(name: str) -> str:
    return (
        f"if it is what an interrupted or failed restore has left, add {name} to the file,"
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
