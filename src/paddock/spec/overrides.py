"""Values from the command line: ``--set agents.NAME.machine.memory=8G``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from paddock.errors import BadInput
from paddock.spec.tree import Location, Origin, Tree, grafted, merged, read

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
