"""Open the agents of a file, each in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paddock.base.errors import BadInput
from paddock.channels.connection import connections
from paddock.core.deployment import Deployment
from paddock.core.on_machine import OnMachine
from paddock.file.load import Loaded
from paddock.file.models.whole import AgentSpec
from paddock.places.contract import AnyPlace
from paddock.places.open import place_for
from paddock.show.reporter import Reporter


@contextmanager
def deployments(
    loaded: Loaded, only: list[str], reporter: Reporter, *, patient: bool = True
) -> Iterator[list[Deployment]]:
    """Yield the named agents of a file, or all enabled ones: at least one. Places are shared, and closed at the end."""
    unknown = sorted(set(only) - loaded.spec.agents.keys())
    if unknown:
        raise BadInput(f"there is no agent {', '.join(unknown)} in {loaded.path.name}")
    agents = loaded.spec.agents
    chosen = [*loaded.chosen(only)]
    if not chosen:
        raise BadInput(
            f"no agent of {loaded.path.name} is enabled", hint="remove `enabled: false`, or name an agent with --only"
        )
    needed = dict.fromkeys([*chosen, *(behind for name in chosen if (behind := agents[name].model_gateway))])
    places: dict[tuple[str, str | None], AnyPlace] = {}
    try:
        for agent in (agents[name] for name in needed):
            if _where(agent) not in places:
                spec = loaded.spec.places[agent.place].on_node(agent.machine.node)
                places[_where(agent)] = place_for(agent.place, spec, loaded.folder, reporter.say, patient=patient)
        found: dict[str, Deployment] = {}
        gateways_first = sorted(needed, key=lambda name: agents[name].model_gateway is not None)
        for name in gateways_first:
            behind = agents[name].model_gateway
            place = places[_where(agents[name])]
            found[name] = Deployment.declared(
                name, loaded, place, reporter, OnMachine(), found[behind] if behind else None
            )
        with connections():
            yield [found[name] for name in chosen]
    finally:
        for place in places.values():
            place.close()


def _where(agent: AgentSpec) -> tuple[str, str | None]:
    """Return what identifies the agent's place. Each node of a cluster counts as a place of its own."""
    return agent.place, agent.machine.node
