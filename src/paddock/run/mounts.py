"""Check that the host directories of ``mounts:`` exist, are mounted, and are writable for the agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from paddock.errors import NeedsPerson
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.runtimes import machine
from paddock.spec.models import AgentSpec


def check(guest: Guest, agent: AgentSpec, owner: str, *, made_for_it: bool) -> None:
    """Raise an error about the first mount that the agent cannot use."""
    for sentence, hint in problems(guest, agent, owner, made_for_it=made_for_it):
        raise NeedsPerson(sentence, hint=hint)


def problems(guest: Guest, agent: AgentSpec, owner: str, *, made_for_it: bool) -> Iterator[tuple[str, str]]:
    """Yield each problem with a mount, tried on the machine with the agent's ids, and its remedy.

    A machine that was made for the agent has each directory mounted at the path that the agent sees. ``owner`` has the
    agent's ids as they are on the host.
    """
    paths = {(mount.path if made_for_it else mount.host): mount for mount in agent.mounts}
    argv = machine.report_mounts(agent.user.uid, agent.user.gid or agent.user.uid, list(paths))
    for _, record in records(expect(guest, "checking the mounts", argv)):
        kind, found, tried, writable, path = record.split(" ", 4)
        mount = paths[path]
        if kind == "missing":
            yield f"there is no directory {path} on {guest.name}", f"create it: mkdir {path}"
        elif kind == "secret":
            yield (
                f"{path} on {guest.name} contains Paddock's own files or an agent's state, which no agent may see",
                "choose another directory under mounts:",
            )
        elif made_for_it and kind == "directory":
            yield (
                f"{mount.host} is in the configuration of {guest.name}, but is not mounted at {path} there",
                "restart the machine, and look at its console on the node",
            )
        elif not mount.read_only and writable == "no" and kind == "disk":
            yield (
                f"{mount.host} is a mount point, which the agent cannot own",
                "choose a directory below it under mounts:",
            )
        elif not mount.read_only and writable == "no":
            yield (
                f"{agent.user.name} (uid {tried}) may not write to {path} on {guest.name}, which uid {found} owns",
                f"on the host: chown {owner} {shlex.quote(mount.host)}",
            )
