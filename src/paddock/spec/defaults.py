"""Merge ``defaults:`` of the file into its agents."""

from __future__ import annotations

from typing import Any

from paddock.spec.agent import AgentSpec, RuntimeName
from paddock.spec.kinds import AgentKind, Kinds
from paddock.spec.tree import Tree, grafted, merged


def with_defaults(tree: Tree, kinds: Kinds[AgentKind]) -> Tree:
    """Return the tree with the defaults that apply in each agent; the agent's own values win."""
    defaults, agents = tree.at(("defaults",)), tree.at(("agents",))
    if not isinstance(defaults, dict) or not isinstance(agents, dict):
        return tree
    for name, agent in agents.items():
        if not isinstance(agent, dict):
            continue
        both = defaults | agent
        mine = {key for key in defaults if _concerns(key, both, tree, kinds)}
        given = tree.below(("defaults",))
        given = Tree(
            {key: value for key, value in given.data.items() if key in mine},
            {path: origin for path, origin in given.origins.items() if path[:1] and path[0] in mine},
        )
        own = tree.below(("agents", name))
        tree = merged(tree, grafted(merged(given, own), ("agents", name)))
    return tree


def _concerns(key: str, agent: dict[str, Any], tree: Tree, kinds: Kinds[AgentKind]) -> bool:
    """Whether a default applies to the agent: its kind has the key, and the key goes with its place and runtime."""
    model = kinds.models.get(str(agent.get("kind")), AgentSpec)
    if key in {"machine", "state"} and isinstance(tree.at(("places", str(agent.get("place")), "host")), dict):
        return False
    if key == "container" and agent.get("runtime") not in [name for name in RuntimeName if name.is_engine]:
        return False
    # An unknown key becomes a mistake of every agent, with the same origin, and is reported once.
    return key in model.model_fields or not any(key in other.model_fields for other in kinds.models.values())
