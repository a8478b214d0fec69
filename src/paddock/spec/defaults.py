"""Merge ``defaults:`` of the file into its agents."""

from __future__ import annotations

from typing import Any

from paddock.spec.agent import AgentSpec
from paddock.spec.effect import Shape
from paddock.spec.kinds import AgentKind, Kinds, Mistake
from paddock.spec.tree import Location, Tree, grafted, merged


def with_defaults(tree: Tree, kinds: Kinds[AgentKind]) -> tuple[Tree, list[Mistake]]:
    """Return the tree with the defaults that have an effect in each agent, and those that have none in any agent.

    The agent's own values win.
    """
    defaults, agents = tree.at(("defaults",)), tree.at(("agents",))
    if not isinstance(defaults, dict) or not isinstance(agents, dict):
        return tree, []
    skipped: list[dict[Location, str]] = []
    for name, agent in agents.items():
        if isinstance(agent, dict):
            given = tree.below(("defaults",))
            left_out = _left_out(defaults, defaults | agent, tree, kinds)
            known = str((defaults | agent).get("kind")) in kinds
            skipped.append({path: why for path, why in left_out.items() if known and given.at(path) is not None})
            own = tree.below(("agents", name))
            tree = merged(tree, grafted(merged(_without(given, left_out), own), ("agents", name)))
    nowhere = [path for path in (skipped[0] if skipped else ()) if all(path in each for each in skipped)]
    return tree, [(("defaults", *path), f"no agent of this file can have it: {skipped[0][path]}") for path in nowhere]


def _left_out(
    defaults: dict[str, Any], agent: dict[str, Any], tree: Tree, kinds: Kinds[AgentKind]
) -> dict[Location, str]:
    """Return the defaults that do not concern an agent, and why."""
    model = kinds.models.get(str(agent.get("kind")), AgentSpec)
    shape = Shape.in_data(model, agent, tree.at(("places", str(agent.get("place")))))
    found = dict(shape.without_effect())
    for key in defaults:
        owners = [kind for kind, other in kinds.models.items() if key in other.model_fields]
        # An unknown key becomes a mistake of every agent, with the same origin, and is reported once.
        if owners and key not in model.model_fields:
            found[(key,)] = f"agents of kind {' and '.join(owners)} have it"
    return found


def _without(given: Tree, left_out: dict[Location, str]) -> Tree:
    """Return a tree without some of its values."""

    def kept(path: Location) -> bool:
        return not any(path[: len(gone)] == gone for gone in left_out)

    def pruned(value: Any, path: Location) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: pruned(each, (*path, key)) for key, each in value.items() if kept((*path, key))}

    return Tree(pruned(given.data, ()), {path: origin for path, origin in given.origins.items() if path and kept(path)})
