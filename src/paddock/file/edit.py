"""Change keys of one agent in the user's file, and leave the rest of the text as it is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from paddock.base.frozen import frozen

Said = Mapping[str, Mapping[str, Any] | Sequence[Any] | str | None]


@frozen
class Rewritten:
    """A file whose text was changed."""

    path: Path
    before: bytes
    after: bytes

    def undo(self) -> bool:
        """Write the text from before, unless the file was changed again; return whether it has that text."""
        if self.path.read_bytes() == self.after:
            _replace(self.path, self.before)
        return self.path.read_bytes() == self.before


def as_assignments(agent: str, said: Said) -> list[str]:
    """Return the values as assignments for ``--set``."""
    return [f"{'.'.join(path)}={json.dumps(value)}" for path, value in _leaves(agent, said)]


def as_text(agent: str, said: Said) -> str:
    """Return the values as YAML text."""
    tree: dict[str, Any] = {}
    _put(tree, agent, said)
    text = io.StringIO()
    _yaml().dump(tree, text)
    return text.getvalue()


def write_into(files: Sequence[Path], agent: str, said: Said) -> Rewritten:
    """Write the values into the last file that has the agent, and return that file. The rest of its text is kept."""
    yaml = _yaml()
    trees = [(path, yaml.load(path.read_text(encoding="utf-8"))) for path in files]
    path, tree = [(path, tree) for path, tree in trees if agent in (tree.get("agents") or {})][-1]
    _put(tree, agent, said)
    before, text = path.read_bytes(), io.BytesIO()
    yaml.dump(tree, text)
    _replace(path, text.getvalue())
    return Rewritten(path, before, text.getvalue())


def rename_agent(files: Sequence[Path], former: str, name: str, said: Said) -> list[Rewritten]:
    """Give an agent another name in the files, also where other agents name it as their model gateway.

    The values are written too, as by ``write_into``. Returns the files that were changed.
    """
    yaml = _yaml()
    trees = [(path, yaml.load(path.read_text(encoding="utf-8"))) for path in files]
    for _, tree in trees:
        agents: CommentedMap = tree.get("agents") or CommentedMap()
        for each in (agent for agent in agents.values() if isinstance(agent, dict)):
            if each.get("gateway") == former:
                each["gateway"] = name
        if former in agents:
            _rename_key(agents, former, name)
    _put([tree for _, tree in trees if name in (tree.get("agents") or {})][-1], name, said)
    found = []
    for path, tree in trees:
        before, text = path.read_bytes(), io.BytesIO()
        yaml.dump(tree, text)
        if yaml.load(before.decode()) != tree:
            _replace(path, text.getvalue())
            found.append(Rewritten(path, before, text.getvalue()))
    return found


def _rename_key(mapping: CommentedMap, former: str, name: str) -> None:
    """Rename a key at its position, with its comments."""
    at, comment = list(mapping).index(former), mapping.ca.items.pop(former, None)
    mapping.insert(at, name, mapping.pop(former))
    if comment is not None:
        mapping.ca.items[name] = comment


def _replace(path: Path, text: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(text)
    unfinished.chmod(path.stat().st_mode & 0o777)
    unfinished.replace(path)


def _put(tree: dict[str, Any], agent: str, said: Said) -> None:
    """Put the values into the tree; None removes a key."""
    for keys, value in _leaves(agent, said):
        part = tree
        for key in keys[:-1]:
            if not isinstance(part.get(key), dict):
                part[key] = {}
            part = part[key]
        if value is None:
            part.pop(keys[-1], None)
        else:
            part[keys[-1]] = value


def _leaves(agent: str, said: Said) -> Iterator[tuple[tuple[str, ...], Any]]:
    for part, values in said.items():
        if isinstance(values, Mapping):
            yield from ((("agents", agent, part, key), value) for key, value in values.items())
        elif values is None or isinstance(values, str):
            yield ("agents", agent, part), values
        else:
            yield ("agents", agent, part), list(values)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 16  # do not wrap long lines of the user
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
