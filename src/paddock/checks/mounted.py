"""Checks that the agent can write to the directories that the file gives it."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.recipes.checks import Check, WriteInto
from paddock.recipes.workload import Verdict
from paddock.spec.models import AgentSpec


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
