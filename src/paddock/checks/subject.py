"""The expected condition of the agent that is verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddock.frozen import frozen
from paddock.recipes.checks import Check
from paddock.recipes.workload import Paths
from paddock.runtimes.isolation import Isolation

LEASE = "lease"  # the name of the process that holds the lease, in every runtime


@frozen
class Subject:
    """One agent and the values that its checks expect."""

    agent: str
    paths: Paths
    processes: Sequence[str]
    bundle_id: str  # names the expected bundle
    files: Mapping[str, str]  # sha256 of each shipped file, by its path below ``paths.etc``
    tree: str | None  # path of its code tree
    asked: Sequence[Check]  # checks that are asked beside the agent, as its user
    confined: frozenset[Isolation]
    mounted: bool  # the state is a volume
    own_machine: bool  # Paddock made the machine for this agent
    account: str = ""  # on its machine, with root; empty if it runs as the account that supervises it
    memory: int = 0  # bytes that the file asks for; 0 if it says nothing
    limits_units: bool = False  # its units share a host with others, and are limited
    unit_memory: int = 0  # bytes that the file gives each of its units; 0 if it says nothing
    unit_cores: int = 0
    ports: frozenset[int] = frozenset()  # ports that the agent listens on
    health_port: frozenset[int] = frozenset()  # the loopback port that health is asked on, usually the agent's own
    limited: bool = False  # the file limits the agent's connections
    exposed: frozenset[int] = frozenset()  # ports that other machines may reach

    @property
    def root(self) -> str:
        """The folder of the agent's bundles and secrets."""
        return self.paths.etc.removesuffix("/current")

    def questions(self, *, quick: bool) -> list[Check]:
        """Return the checks that are asked beside the agent, in the order of their answers."""
        return [check for check in self.asked if check.quick or not quick]
