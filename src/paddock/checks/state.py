"""The state, its lease, and the processes that may write to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.checks.line import Line, Outcome
from paddock.checks.subject import LEASE, Subject
from paddock.runtimes.isolation import Isolation

_SETTLED: Final = 30  # seconds after which a restart is one of the past
_AGAIN_AND_AGAIN: Final = 3  # restarts
_OTHERS: Final = 0o007
_GROUP: Final = 0o070


def lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Whether the state is there and nobody else's."""
    found, seconds = fact["found"], fact["seconds"]
    top = subject.paths.state
    if subject.mounted:
        evidence = f"{top} is {'a volume of its own' if found['mounted'] else 'part of the root disk'}"
        hint = f"the agent must not run like this: `paddock cycle --only {subject.agent}`"
        yield Line.of("state.mounted", found["mounted"], evidence, hint, seconds)
    wrong = list(_loose(subject, found["folders"], _uid(subject, facts)))
    size, free = found.get("size", 0), found.get("free", 0)
    room = f"; {free >> 20}M of {size >> 20}M free"
    yield Line.of(
        "state.private",
        not wrong,
        "\n".join(wrong) or f"only the agent and root get into {top}{room}",
        f"`paddock cycle --only {subject.agent}` puts them right; find out who changed them",
        seconds,
    )


def _uid(subject: Subject, facts: Mapping[str, Any]) -> int | None:
    """The number of the agent's user on its machine: its own, as it is beside the agent, or that of whoever looks."""
    if Isolation.ACCOUNT not in subject.confined:
        return int(facts["uid"])
    uid = facts["inside"].get("found", {}).get("uid")
    return int(uid) if uid is not None else None


def _loose(subject: Subject, folders: Mapping[str, Any], uid: int | None) -> Iterator[str]:
    for path, folder in folders.items():
        if folder is None:
            yield f"{path} is not there"
            continue
        mode = int(folder["mode"], 8)
        if mode & _OTHERS:
            yield f"{path} is open to everyone (mode {folder['mode']})"
        own = {0, uid} if Isolation.ACCOUNT in subject.confined else {uid}
        if uid is not None and folder["uid"] not in own:
            yield f"{path} belongs to user {folder['uid']}, not to the agent"
    state_folder = folders.get(f"{subject.paths.state}/.paddock")
    if (
        Isolation.ACCOUNT in subject.confined
        and state_folder
        and (state_folder["uid"] != 0 or int(state_folder["mode"], 8) & (_GROUP | _OTHERS))
    ):
        yield f"{subject.paths.state}/.paddock is not root's alone, so the agent could replace its lease"


def lease(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Whether the lease on the state is held, and by the one process that should hold it."""
    found = fact["found"]
    holder = facts["processes"].get(LEASE, {"pid": 0})["pid"]
    hint = "two may write to one state: end the other one, then `paddock up`"
    if not found["held"]:
        ok, evidence = False, found.get("missing") or "nobody holds it"
        hint = f"`paddock up` starts {subject.agent}; `paddock logs {subject.agent}` tells more"
    elif not found["holders"]:
        ok, evidence = False, f"it is held elsewhere: {found['holder']}"
    else:
        ok = holder in found["holders"]
        by = f"held once, by {found['holder']}"
        evidence = by if ok else f"held by process {', '.join(map(str, found['holders']))}, which is not its unit"
    yield Line.of("lease", ok, evidence, hint, fact["seconds"])


def processes(subject: Subject, facts: Mapping[str, Any]) -> Iterator[Line]:
    """Whether each of the agent's processes runs, and stays."""
    for name in subject.processes:
        found = facts["processes"].get(name)
        if found is None:
            yield Line(f"process.{name}", Outcome.FAILED, "it is not there", "run `paddock up`")
            continue
        age = facts["now"] - found["since"]
        # One that was killed and came back is well; one that comes back and goes again is not.
        restarting = found["restarts"] >= _AGAIN_AND_AGAIN and age < _SETTLED
        ok = found["state"] == "active" and found["pid"] > 0 and not restarting
        how = f"runs as process {found['pid']} for {_duration(age)}" if found["state"] == "active" else found["state"]
        evidence = how + _restarted(found["restarts"])
        yield Line.of(f"process.{name}", ok, evidence, f"`paddock logs {subject.agent}` tells why")


def _restarted(times: int) -> str:
    return f", restarted {'once' if times == 1 else f'{times} times'}" if times else ""


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
