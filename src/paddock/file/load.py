"""Load a paddock.yaml, and report all its mistakes at once, each with its line and path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.file.kinds import AgentKind, FileView, Kinds, Mistake
from paddock.file.models.agent import AgentSpec
from paddock.file.models.place import PlaceSpec
from paddock.file.models.whole import Spec
from paddock.file.overlays import overridden, with_defaults
from paddock.file.referenced import unusable
from paddock.file.rules import combinations
from paddock.file.rules.literals import suspects
from paddock.file.tree import Location, Origin, Tree, dotted, merged, read


@frozen
class Loaded:
    """A valid file, with the origins of its values and the kinds of agents it may have."""

    spec: Spec
    path: Path
    tree: Tree
    kinds: Kinds[Any]

    @property
    def folder(self) -> Path:
        return self.path.parent

    def chosen(self, only: Collection[str] = ()) -> dict[str, AgentSpec]:
        """Return the agents that a run is for: those named in `only`, or all enabled ones."""
        agents = self.spec.agents
        return {name: agent for name, agent in agents.items() if (name in only if only else agent.enabled)}

    def told(self, mistakes: Iterable[Mistake]) -> list[str]:
        """Return a line of text for each mistake, with its position, in the order of the file."""
        placed = {(self.tree.origin(location), sentence) for location, sentence in mistakes}
        return [_line(origin, sentence) for origin, sentence in sorted(placed)]


class FileMistakes(BadInput):
    """All mistakes in a file, each with its origin."""

    def __init__(self, found: Iterable[tuple[Origin, str]]) -> None:
        # A mistake in the defaults is found once per agent, and reported once.
        self.found = sorted(set(found))
        super().__init__("\n".join(_line(origin, what) for origin, what in self.found))


def load(first: Path, *more: Path, sets: Sequence[str] = (), kinds: Kinds[AgentKind]) -> Loaded:
    """Merge the files and return the result, or raise one error that lists all mistakes.

    Later files override earlier ones, and ``sets`` override all files. Relative paths start at the first file's folder.
    """
    tree = _text_tree(first)
    for path in more:
        tree = merged(tree, _text_tree(path))
    tree = reduce(overridden, sets, tree)
    folder = first.absolute().parent
    spec, tree = _checked(tree, folder, kinds)
    return Loaded(spec, first.absolute(), tree, kinds)


def parse(text: str, name: str, kinds: Kinds[AgentKind]) -> Spec:
    """Return the spec in a YAML text, without reading other files; messages call the text ``name``."""
    return _checked(_mapping(read(text, name), name), None, kinds)[0]


def _text_tree(path: Path) -> Tree:
    try:
        tree = read(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise BadInput(
            f"there is no {path}", hint="`paddock init` writes a first file; --file names another one"
        ) from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path}: it is not a text in UTF-8") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"cannot read {str(path)!r}: that is not a file name") from None
    return _mapping(tree, str(path))


def _mapping(tree: Tree, name: str) -> Tree:
    if tree.data is None:
        raise BadInput(f"{name}: the file is empty", hint="`paddock init` writes a first file")
    if not isinstance(tree.data, dict):
        raise BadInput(f"{name}:1:1: the file must be a mapping with places: and agents:")
    return tree


def _checked(tree: Tree, folder: Path | None, kinds: Kinds[AgentKind]) -> tuple[Spec, Tree]:
    tree, found = with_defaults(tree, kinds)
    spec: Spec | None = None
    try:
        spec = _valid(tree, kinds)
        places, agents = dict(spec.places), dict(spec.agents)
    except ValidationError as error:
        from paddock.file import sentences

        found += sentences.mistakes(error, tree, kinds)
        places, agents = _valid_parts(tree, {location[:2] for location, _ in found}, kinds)
    found += combinations.mistakes(FileView(places, agents, kinds, folder))
    found += [*_without_place(tree), *suspects(tree, lambda agent: kinds.expanded(agent, tree))]
    if folder is not None:
        found += unusable(places, agents, folder)
    # A value that could not be read as YAML is missing from the data: other mistakes about it would be wrong.
    unread = {origin for origin, _ in tree.mistakes}
    placed = [(tree.origin(location), sentence) for location, sentence in found]
    placed = tree.mistakes + [(origin, sentence) for origin, sentence in placed if origin not in unread]
    if placed or spec is None:
        raise FileMistakes(placed)
    return spec, tree


def _valid(tree: Tree, kinds: Kinds[AgentKind]) -> Spec:
    """Return the file. The model with all kinds takes long to build; it is used for its errors, which name all keys."""
    try:
        return kinds.named_in(tree).file.model_validate(tree.data)
    except ValidationError:
        return kinds.file.model_validate(tree.data)


def _valid_parts(
    tree: Tree, wrong: set[Location], kinds: Kinds[AgentKind]
) -> tuple[dict[str, PlaceSpec], dict[str, AgentSpec]]:
    """Return the valid places and agents, so that an invalid one does not hide mistakes between the others."""
    places, agents = tree.at(("places",)), tree.at(("agents",))
    if not isinstance(places, dict) or not isinstance(agents, dict):
        return {}, {}
    model = PlaceSpec.complete()
    return (
        {name: model.model_validate(place) for name, place in places.items() if ("places", name) not in wrong},
        {name: kinds.agent_from(agent) for name, agent in agents.items() if ("agents", name) not in wrong},
    )


def _without_place(tree: Tree) -> Iterator[Mistake]:
    """Yield the agents, valid or not, that name an unknown place."""
    places, agents = tree.at(("places",)), tree.at(("agents",))
    if isinstance(places, dict) and isinstance(agents, dict):
        for name in agents:
            place = tree.at(("agents", name, "place"))
            if isinstance(place, str):
                yield from combinations.no_such_place(name, place, places)


def _line(origin: Origin, sentence: str) -> str:
    return f"{origin}: {dotted(origin.path) or 'file'}: {sentence}"
