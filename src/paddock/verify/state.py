"""Checks of the state, its lease, and the processes that write to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.base.text import one_line
from paddock.file.models.whole import AgentSpec
from paddock.kinds.checks import Check, WriteInto
from paddock.kinds.workload import Verdict
from paddock.runtimes.contract import Isolation
from paddock.verify.line import LEASE, Line, Outcome, Subject

_SETTLED: Final = 30  # seconds after a restart until the process counts as stable
_AGAIN_AND_AGAIN: Final = 3  # restarts
_MOST_OF_IT: Final = 0.95  # a kernel keeps some memory for itself
_OWN: Final = frozenset({".paddock", "home", "lost+found"})  # the entries of a state
_SYSTEM: Final = frozenset({"etc", "usr"})  # every archive of a system has them
_SHOWN: Final = 8
_OTHERS: Final = 0o007
_GROUP: Final = 0o070


def lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the state is mounted and that only the agent and root can enter it."""
    found, seconds = fact["found"], fact["seconds"]
    top = subject.paths.state
    if subject.mounted:
        evidence = f"{top} is {'a volume of its own' if found['mounted'] else 'part of the root disk'}"
        hint = f"the agent must not run without its volume: `paddock cycle --only {subject.agent}` mounts it"
        yield Line.of("state.mounted", found["mounted"], evidence, hint, seconds)
    wrong = list(_loose(subject, found["folders"], _uid(subject, facts)))
    hint = f"`paddock cycle --only {subject.agent}` repairs owners and modes; find out who changed them"
    if subject.mounted and (entries := set(found.get("entries", ()))) >= _SYSTEM:
        wrong.append(f"a system was unpacked onto {top}: {one_line(', '.join(sorted(entries - _OWN)[:_SHOWN]))}")
        hint = (
            "somebody used the volume as a root disk, which the API token can: replace the token, compare the memory"
            " with a backup (`paddock drill`), and move what is foreign away as root"
        )
    size, free = found.get("size", 0), found.get("free", 0)
    space = f"; {free >> 20}M of {size >> 20}M free"
    yield Line.of(
        "state.private",
        not wrong,
        "\n".join(wrong) or f"only the agent and root can enter {top}{space}",
        hint,
        seconds,
    )


def memory(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the machine has the memory that the file asks for: a token often cannot see how much its node has."""
    if not subject.memory:
        return
    found = fact["found"]
    yield Line.of(
        "machine.memory",
        found >= subject.memory * _MOST_OF_IT,
        f"the machine has {found >> 20}M of memory, and the file asks for {subject.memory >> 20}M",
        "its node has no more: write a smaller machine.memory",
        fact["seconds"],
    )


def _uid(subject: Subject, facts: Mapping[str, Any]) -> int | None:
    """Return the uid of the agent on its machine; without its own account, the uid of the user who verifies."""
    if Isolation.ACCOUNT not in subject.confined:
        return int(facts["uid"])
    uid = facts["inside"].get("found", {}).get("uid")
    return int(uid) if uid is not None else None


def _loose(subject: Subject, folders: Mapping[str, Any], uid: int | None) -> Iterator[str]:
    for path, folder in folders.items():
        if folder is None:
            yield f"{path} is missing"
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
        yield f"{subject.paths.state}/.paddock is not private to root, so the agent could replace its lease"


def lease(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the agent's own lease process holds the lease on the state."""
    found = fact["found"]
    holder = facts["processes"].get(LEASE, {"pid": 0})["pid"]
    hint = "two agents may write to this state: stop the other one, then run `paddock up`"
    if not found["held"]:
        missing = found.get("missing")
        ok, evidence = False, f"the lease file cannot be read: {missing}" if missing else "no process holds the lease"
        hint = f"`paddock up` starts {subject.agent}; `paddock logs {subject.agent}` tells more"
    elif not found["holders"]:
        ok, evidence = False, f"the lease is held, but by no process of this machine: {found['holder']}"
    else:
        ok = holder in found["holders"]
        others = f"process {', '.join(map(str, found['holders']))}, which is not the agent's lease process"
        evidence = f"held by {found['holder'] if ok else others}"
    yield Line.of("lease", ok, evidence, hint, fact["seconds"])


def processes(subject: Subject, facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that each process of the agent runs and does not restart again and again."""
    for name in subject.processes:
        found = facts["processes"].get(name)
        if found is None:
            yield Line(f"process.{name}", Outcome.FAILED, "the process does not exist", "run `paddock up`")
            continue
        age = facts["now"] - found["since"]
        # A single restart is harmless; repeated restarts are a failure.
        restarting = found["restarts"] >= _AGAIN_AND_AGAIN and age < _SETTLED
        ok = found["state"] == "active" and found["pid"] > 0 and not restarting
        how = f"runs as process {found['pid']} for {_duration(age)}" if found["state"] == "active" else found["state"]
        times = found["restarts"]
        evidence = how + (f", restarted {'once' if times == 1 else f'{times} times'}" if times else "")
        yield Line.of(f"process.{name}", ok, evidence, f"`paddock logs {subject.agent}` tells why")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def checks(agent: AgentSpec) -> Iterator[Check]:
    """Yield a check for each mount and each volume that is not read-only."""
    owner = f"chown {agent.user.uid}:{agent.user.gid or agent.user.uid}"
    given = [
        (mount.path, "the line `mounts` says what to do; or write read_only: true")
        for mount in agent.mounts
        if not mount.read_only
    ]
    for volume in agent.container.volumes:
        host, path, *mode = volume.split(":")
        if mode != ["ro"] and path not in agent.container.sockets:
            given.append((path, f"on the machine: {owner} {host}; or write {host}:{path}:ro if it only reads there"))
    for path, hint in given:
        yield Check(f"mount.{path}", WriteInto(path, or_file=True), _writable, hint)


def _writable(written: object) -> Verdict:
    return Verdict(True, "the agent can write there" if written else "it is no directory, and was not written to")
