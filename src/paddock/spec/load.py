"""Reading a paddock.yaml: every mistake at once, each with its line, its path and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from paddock.errors import BadInput
from paddock.spec import sentences, together
from paddock.spec.agent import AgentSpec, agent_from
from paddock.spec.defaults import with_defaults
from paddock.spec.files import unreadable
from paddock.spec.models import Spec
from paddock.spec.overrides import overridden
from paddock.spec.place import PlaceSpec
from paddock.spec.suspects import suspects
from paddock.spec.tree import Location, Origin, Tree, merged, read

_Mistake = tuple[Location, str]


@dataclass(frozen=True)
class Loaded:
    """A valid file, where everything in it was written, and the folder its relative paths start from."""

    spec: Spec
    path: Path
    tree: Tree

    @property
    def folder(self) -> Path:
        return self.path.parent

    def told(self, mistakes: Iterable[_Mistake]) -> list[str]:
        """Sentences about places of the file, each with its line, in the order of the file."""
        return _lines((self.tree.origin(location), sentence) for location, sentence in mistakes)


def load(first: Path, *more: Path, sets: Sequence[str] = ()) -> Loaded:
    """Return what the files say together, or raise one error that lists all mistakes.

    Later files win over earlier ones, and ``sets`` over all of them; relative paths start at the first file's folder.
    """
    tree = _text_tree(first)
    for path in more:
        tree = merged(tree, _text_tree(path))
    for assignment in sets:
        tree = overridden(tree, assignment)
    folder = first.absolute().parent
    spec, tree = _checked(tree, str(first), folder)
    return Loaded(spec, first.absolute(), tree)


def parse(text: str, name: str) -> Spec:
    """Return the spec a YAML text holds; ``name`` stands in the messages. Files it names are not looked at."""
    return _checked(read(text, name), name, None)[0]


def _text_tree(path: Path) -> Tree:
    try:
        return read(path.read_text(encoding="utf-8"), str(path))
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


def _checked(tree: Tree, name: str, folder: Path | None) -> tuple[Spec, Tree]:
    if tree.data is None:
        raise BadInput(f"{name}: the file is empty", hint="`paddock init` writes one to start with")
    if not isinstance(tree.data, dict):
        raise BadInput(f"{name}:1:1: the file must be a mapping with places: and agents:")
    tree = with_defaults(tree)
    spec, found = _validated(tree)
    found += suspects(tree)
    if folder is not None and spec is not None:
        found += unreadable(spec.agents, folder)
    placed = tree.mistakes + [(tree.origin(location), sentence) for location, sentence in found]
    if placed or spec is None:
        raise BadInput("\n".join(_lines(placed)))
    return spec, tree


def _validated(tree: Tree) -> tuple[Spec | None, list[_Mistake]]:
    try:
        spec = Spec.model_validate(tree.data)
    except ValidationError as error:
        found = list(sentences.mistakes(error, tree))
        return None, found + list(_salvaged(tree, {location[:2] for location, _ in found}))
    return spec, list(together.mistakes(spec.places, spec.agents))


def _salvaged(tree: Tree, wrong: set[Location]) -> Iterator[_Mistake]:
    """Mistakes between the parts that are right, so that one wrong part does not hide them."""
    places, agents = tree.at(("places",)), tree.at(("agents",))
    if not isinstance(places, dict) or not isinstance(agents, dict):
        return iter(())
    right_places = {
        name: PlaceSpec.model_validate(place) for name, place in places.items() if ("places", name) not in wrong
    }
    right_agents: dict[str, AgentSpec] = {
        name: agent_from(agent) for name, agent in agents.items() if ("agents", name) not in wrong
    }
    return together.mistakes(right_places, right_agents, named=[name for name in places if name not in right_places])


def _lines(placed: Iterable[tuple[Origin, str]]) -> list[str]:
    """One line per mistake in the order of the files; a mistake in the defaults is one, not one per agent."""
    lines = (f"{origin}: {'.'.join(origin.path) or 'file'}: {sentence}" for origin, sentence in sorted(placed))
    return list(dict.fromkeys(lines))
