"""Reading a paddock.yaml: every mistake at once, each with its line, its path and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paddock.errors import BadInput
from paddock.spec import sentences, together
from paddock.spec.agent import AgentSpec
from paddock.spec.defaults import with_defaults
from paddock.spec.files import unusable
from paddock.spec.kinds import AgentKind, FileView, Kinds, Mistake
from paddock.spec.models import Spec
from paddock.spec.overrides import overridden
from paddock.spec.place import PlaceSpec
from paddock.spec.suspects import suspects
from paddock.spec.tree import Location, Origin, Tree, dotted, merged, read


@dataclass(frozen=True)
class Loaded:
    """A valid file, where everything in it was written, and the folder its relative paths start from."""

    spec: Spec
    path: Path
    tree: Tree
    kinds: Kinds[Any]

    @property
    def folder(self) -> Path:
        return self.path.parent

    def told(self, mistakes: Iterable[Mistake]) -> list[str]:
        """Sentences about places of the file, each with its line, in the order of the file."""
        placed = {(self.tree.origin(location), sentence) for location, sentence in mistakes}
        return [_line(origin, sentence) for origin, sentence in sorted(placed)]


class FileMistakes(BadInput):
    """All that is wrong with a file, each with its origin."""

    def __init__(self, found: Iterable[tuple[Origin, str]]) -> None:
        # A mistake in the defaults is one, not one per agent.
        self.found = sorted(set(found))
        super().__init__("\n".join(_line(origin, what) for origin, what in self.found))


def load(first: Path, *more: Path, sets: Sequence[str] = (), kinds: Kinds[AgentKind]) -> Loaded:
    """Return what the files say together, or raise one error that lists all mistakes.

    Later files win over earlier ones, and ``sets`` over all of them; relative paths start at the first file's folder.
    """
    tree = _text_tree(first)
    for path in more:
        tree = merged(tree, _text_tree(path))
    for assignment in sets:
        tree = overridden(tree, assignment)
    folder = first.absolute().parent
    spec, tree = _checked(tree, folder, kinds)
    return Loaded(spec, first.absolute(), tree, kinds)


def parse(text: str, name: str, kinds: Kinds[AgentKind]) -> Spec:
    """Return the spec a YAML text holds; ``name`` stands in the messages. Files it names are not looked at."""
    return _checked(_mapping(read(text, name), name), None, kinds)[0]


def _text_tree(path: Path) -> Tree:
    try:
        tree = read(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise BadInput(
            f"there is no {path}", hint="`paddock init` writes one to start with; --file names another"
        ) from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path}: it is not a text in UTF-8") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"cannot read {str(path)!r}: that is no name of a file") from None
    return _mapping(tree, str(path))


def _mapping(tree: Tree, name: str) -> Tree:
    if tree.data is None:
        raise BadInput(f"{name}: the file is empty", hint="`paddock init` writes one to start with")
    if not isinstance(tree.data, dict):
        raise BadInput(f"{name}:1:1: the file must be a mapping with places: and agents:")
    return tree


def _checked(tree: Tree, folder: Path | None, kinds: Kinds[AgentKind]) -> tuple[Spec, Tree]:
    tree = with_defaults(tree, kinds)
    spec: Spec | None = None
    found: list[Mistake] = []
    try:
        spec = kinds.file.model_validate(tree.data)
        places, agents = dict(spec.places), dict(spec.agents)
    except ValidationError as error:
        found += sentences.mistakes(error, tree, kinds)
        places, agents = _right_ones(tree, {location[:2] for location, _ in found}, kinds)
    found += together.mistakes(FileView(places, agents, kinds, folder))
    found += [*_lost(tree), *suspects(tree, lambda agent: kinds.expanded(agent, tree))]
    if folder is not None:
        found += unusable(agents, folder)
    # What could not even be read as YAML has no value that could be judged.
    unread = {origin for origin, _ in tree.mistakes}
    placed = [(tree.origin(location), sentence) for location, sentence in found]
    placed = tree.mistakes + [(origin, sentence) for origin, sentence in placed if origin not in unread]
    if placed or spec is None:
        raise FileMistakes(placed)
    return spec, tree


def _right_ones(
    tree: Tree, wrong: set[Location], kinds: Kinds[AgentKind]
) -> tuple[dict[str, PlaceSpec], dict[str, AgentSpec]]:
    """The places and agents that are right, so that a wrong one does not hide the mistakes between them."""
    places, agents = tree.at(("places",)), tree.at(("agents",))
    if not isinstance(places, dict) or not isinstance(agents, dict):
        return {}, {}
    return (
        {name: PlaceSpec.model_validate(place) for name, place in places.items() if ("places", name) not in wrong},
        {name: kinds.agent_from(agent) for name, agent in agents.items() if ("agents", name) not in wrong},
    )


def _lost(tree: Tree) -> Iterator[Mistake]:
    """Agents, right or wrong in the rest, that name a place the file does not have."""
    places, agents = tree.at(("places",)), tree.at(("agents",))
    if isinstance(places, dict) and isinstance(agents, dict):
        for name in agents:
            place = tree.at(("agents", name, "place"))
            if isinstance(place, str):
                yield from together.no_such_place(name, place, places)


def _line(origin: Origin, sentence: str) -> str:
    return f"{origin}: {dotted(origin.path) or 'file'}: {sentence}"
