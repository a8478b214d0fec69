"""Agents whose ``network.egress`` could not be enforced: they are refused, never run with open connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paddock.file.kinds import Mistake
from paddock.file.models.agent import AgentSpec, RuntimeName
from paddock.file.models.place import PlaceSpec, Scope
from paddock.file.rules.folders import overlap

# Options that give the container another network, another user or more privileges than the filter expects.
_UNDERMINING: Final = frozenset(
    (
        *("--cap-add", "--device-cgroup-rule", "--mount", "--net", "--network", "--pid", "--privileged", "--runtime"),
        *("--security-opt", "--user", "--userns", "--volume", "--volumes-from", "-u", "-v"),
    )
)
_SOCKETS: Final = ("/run", "/var/run")  # engines and systemd listen there
_OTHERWISE: Final = "or write network: {egress: open}"


def mistakes(agent: AgentSpec, place: PlaceSpec) -> Iterator[Mistake]:
    """Yield the keys with which the agent could connect to addresses that the file forbids."""
    if not agent.network.closed:
        return
    if agent.runtime is RuntimeName.PROCESS:
        yield (
            ("network", "egress"),
            f"runtime process runs in your own account, whose connections are not filtered: use systemd, {_OTHERWISE}",
        )
    elif place.host is not None and place.host.scope is Scope.USER:
        yield ("network", "egress"), f"a filter needs root on the machine: use scope: system, {_OTHERWISE}"
    elif agent.runtime.is_engine:
        yield from _container(agent)


def _container(agent: AgentSpec) -> Iterator[Mistake]:
    container = agent.container
    for key in ("sudo", "writable"):
        if getattr(container, key):
            yield (
                ("container", key),
                f"egress filters the agent's account, not root in its container: remove {key}, {_OTHERWISE}",
            )
    for option in undermining(container.options):
        yield ("container", "options"), f"{option} would let the agent avoid egress: remove it, {_OTHERWISE}"
    for at, volume in enumerate(container.volumes):
        if any(overlap(volume.partition(":")[0], folder) for folder in _SOCKETS):
            yield (
                ("container", "volumes", str(at)),
                f"whoever listens there could connect for the agent: remove it, {_OTHERWISE}",
            )


def undermining(options: Sequence[str]) -> list[str]:
    """Return the names of options with which an agent in a container could avoid the filter."""
    return [_name(option) for option in options if _name(option) in _UNDERMINING]


def _name(option: str) -> str:
    return option.partition("=")[0] if option.startswith("--") else option[:2]
