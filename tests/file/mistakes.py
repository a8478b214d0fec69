"""Cases of files with mistakes: each states what it changes in one good file."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node

from cases import DATA
from paddock.file.tree import Location, Tree, merged, read

GOOD = (DATA / "good.yaml").read_text()


def written(case: dict[str, Any]) -> list[Path]:
    """Write the files of a case into the current folder, and return those to load, in order."""
    for name, text in (case.get("files", {}) | case.get("over", {})).items():
        Path(name).write_text(text)
    over = [Path(name) for name in case.get("over", {})]
    if "whole" in case:
        Path("paddock.yaml").write_text(case["whole"])
        return [Path("paddock.yaml"), *over]
    with Path("base.yaml").open("w") as file:
        YAML().dump(base(case), file)
    if "file" not in case:
        return [Path("base.yaml"), *over]
    Path("paddock.yaml").write_text(case["file"])
    return [Path("base.yaml"), Path("paddock.yaml"), *over]


def base(case: dict[str, Any]) -> Any:
    """Return the good file without the keys that the case takes out, or replaces by a mapping in braces."""
    data = copy.deepcopy(read(GOOD, "good.yaml").data)
    for path in [*(tuple(path.split(".")) for path in case.get("without", ())), *_braced(case.get("file", ""))]:
        _remove(data, path)
    return data


def data_of(case: dict[str, Any]) -> Any:
    """Return what the base and the case's own file say together."""
    return merged(Tree(base(case)), read(case.get("file", "{}"), "paddock.yaml")).data


def _remove(data: Any, path: Location) -> None:
    for part in path[:-1]:
        data = data.get(part, {}) if isinstance(data, dict) else {}
    if isinstance(data, dict):
        data.pop(path[-1], None)


def _braced(text: str) -> Iterator[Location]:
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError:
        return iter(())  # the case is about text that is not YAML
    return _braced_below(node, ())


def _braced_below(node: Node | None, path: Location) -> Iterator[Location]:
    if isinstance(node, MappingNode) and len(path) < 10:  # an alias may contain itself
        if node.flow_style and path:
            yield path
        elif not node.flow_style:
            for key, value in node.value:
                yield from _braced_below(value, (*path, str(key.value)))
