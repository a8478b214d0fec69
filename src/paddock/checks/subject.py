"""The agent that is to be verified: how its rooms want it to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.recipes.checks import Check
from paddock.recipes.workload import Paths
from paddock.runtimes.isolation import Isolation

LEASE = "lease"  # the name of the process that holds it, in every runtime


@dataclass(frozen=True)
class Subject:
    """One agent, as it should be."""

    agent: str
    paths: Paths
    processes: Sequence[str]
    bundle_id: str  # the name of its configuration
    files: Mapping[str, str]  # sha256 of what was shipped, by the path below ``paths.etc``
    tree: str | None  # where its code is
    asked: Sequence[Check]  # what its own user is asked, beside it
    confined: frozenset[Isolation]
    mounted: bool  # its state is a volume
    own_machine: bool  # made for it, and for nothing else
    ports: frozenset[int] = frozenset()  # where it is to listen
    health_port: frozenset[int] = frozenset()  # where its health is asked, on its machine: likely its own
    exposed: frozenset[int] = frozenset()  # ports that may be reached from elsewhere

    @property
    def root(self) -> str:
        """The folder of all its configurations and of the secrets beside them."""
        return self.paths.etc.removesuffix("/current")

    def questions(self, *, quick: bool) -> list[Check]:
        """What is asked this time; the answers come in the same order."""
        return [check for check in self.asked if check.quick or not quick]
