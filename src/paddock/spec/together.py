"""Mistakes of things that are right alone and wrong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paddock.spec.agent import AgentSpec, RuntimeName
from paddock.spec.place import PlaceSpec

Mistake = tuple[tuple[str, ...], str]
_Places = Mapping[str, PlaceSpec]
_Agents = Mapping[str, AgentSpec]


def mistakes(places: _Places, agents: _Agents) -> Iterator[Mistake]:
    """Where in the file, and what."""
    for name, agent in agents.items():
        at = ("agents", name)
        place = places.get(agent.place)
        if place is None:
            known = ", ".join(places)
            yield (*at, "place"), f"there is no place {agent.place!r} in this file (there is {known})"
        elif agent.runtime is RuntimeName.PROCESS and (place.host is None or place.host.address is not None):
            yield (*at, "runtime"), "process runs on this machine only: a place with host: {}"
