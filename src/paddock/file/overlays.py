"""Values from outside an agent's own keys: ``defaults:`` of the file, and ``--set`` of the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from paddock.base.errors import BadInput
from paddock.file.kinds import AgentKind, Kinds, Mistake
from paddock.file.models.agent import AgentSpec
from paddock.file.rules.shapes import Shape
from paddock.file.tree import Location, Origin, Tree, grafted, merged, read


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


_PART: Final = re.compile(r'"([^"]+)"|([^."=]+)')


def overridden(tree: Tree, assignment: str) -> Tree:
    """Return the tree with one value replaced; the value is YAML."""
    path, text = _split(assignment)
    value = read(text, f"--set {'.'.join(path)}")
    # Messages name the path: a line number of the command line would not help.
    origins = {each: Origin("--set", path=path + each) for each in value.origins} or {(): Origin("--set", path=path)}
    mistakes = [(Origin("--set", path=path + origin.path), what) for origin, what in value.mistakes]
    value = replace(value, origins=origins, mistakes=mistakes)
    for length in range(len(path) - 1, 0, -1):
        items = tree.at(path[:length])
        if isinstance(items, list):
            value = _in_list(tree, items, path, length, value)
            path = path[:length]
    return merged(tree, grafted(value, path))


def _in_list(tree: Tree, items: list[object], path: Location, length: int, value: Tree) -> Tree:
    """Return the whole list with the value in one of its items, because merging replaces lists as a whole."""
    index = path[length]
    if not index.isdecimal() or int(index) >= len(items):
        raise BadInput(
            f"--set {'.'.join(path)}: {'.'.join(path[:length])} is a list of {len(items)} items, numbered from 0"
        )
    item = merged(tree.below(path[: length + 1]), grafted(value, path[length + 1 :]))
    whole = tree.below(path[:length])
    origins = {each: origin for each, origin in whole.origins.items() if each[:1] != (index,)}
    origins |= {(index, *each): origin for each, origin in item.origins.items()}
    changed = [item.data if str(number) == index else old for number, old in enumerate(items)]
    return Tree(changed, origins, value.mistakes)


def _split(assignment: str) -> tuple[Location, str]:
    parts: list[str] = []
    position = 0
    while match := _PART.match(assignment, position):
        parts.append(match[1] or match[2].strip())
        position = match.end()
        if assignment[position : position + 1] == "=":
            return tuple(parts), assignment[position + 1 :]
        if assignment[position : position + 1] != ".":
            break
        position += 1
    raise BadInput(
        "--set takes path=value, like --set agents.NAME.machine.memory=8G",
        hint="a part of the path with dots needs quotes: --set 'agents.NAME.documents.\"SOUL.md\"=Be brief.'",
    )
