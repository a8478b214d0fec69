"""Read the other files that the file refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from paddock.base.errors import BadInput
from paddock.file.models.agent import AgentSpec
from paddock.file.models.place import PlaceSpec
from paddock.file.rules.literals import looks_like_a_secret
from paddock.file.secrets.sources import Source
from paddock.file.tree import Location


def unusable(
    places: Mapping[str, PlaceSpec], agents: Mapping[str, AgentSpec], folder: Path
) -> Iterator[tuple[Location, str]]:
    """Yield the locations of files that cannot be used, with the reasons."""
    for location, source in [*parts(places, ("places",), (Source,)), *parts(agents, ("agents",), (Source,))]:
        # An encrypted file is kept with the file. A plain one may be missing where the file is only checked.
        if isinstance(source, Source) and (path := source.age or source.sops):
            yield from unreadable(location, folder, path)
    for name, agent in agents.items():
        at = ("agents", name)
        for title, document in agent.documents.items():
            if document.file is not None:
                text, problem = text_of(folder, document.file)
                if problem or looks_like_a_secret(text):
                    yield (
                        (*at, "documents", title),
                        problem or f"{document.file} contains what looks like a secret",
                    )
        if agent.container.archive is not None:
            yield from unreadable((*at, "container", "archive"), folder, agent.container.archive)


def parts(value: object, location: Location, kinds: tuple[type, ...]) -> Iterator[tuple[Location, object]]:
    """Yield the parts of these types in a part of the file, with their locations, and the parts in them."""
    if value is None or isinstance(value, str | int | float):  # most values: the checks for the others take longer
        return
    if isinstance(value, kinds):
        yield location, value
    match value:
        case BaseModel():
            for name, field in type(value).model_fields.items():
                yield from parts(getattr(value, name), (*location, field.alias or name), kinds)
        case Mapping():
            for name, each in value.items():
                yield from parts(each, (*location, str(name)), kinds)
        case list():
            for number, each in enumerate(value):
                yield from parts(each, (*location, str(number)), kinds)


def inlined(agent: AgentSpec, folder: Path) -> AgentSpec:
    """Return the agent with the contents of the files it refers to, so that later steps read no files."""
    return agent.with_texts(lambda path: _needed(folder, path))


def _needed(folder: Path, path: Path) -> str:
    text, problem = text_of(folder, path)
    if problem:
        raise BadInput(problem)
    return text


def unreadable(location: Location, folder: Path, path: Path) -> Iterator[tuple[Location, str]]:
    """Yield a mistake if the file cannot be read."""
    try:
        (folder / path.expanduser()).open("rb").close()
    except OSError as error:
        yield location, f"cannot read {path}: {error.strerror}"


def text_of(folder: Path, path: Path) -> tuple[str, str]:
    """Return the text of a file and an empty problem, or an empty text and the problem."""
    try:
        return (folder / path.expanduser()).read_text(encoding="utf-8"), ""
    except OSError as error:
        return "", f"cannot read {path}: {error.strerror}"
    except ValueError:
        return "", f"{path} is not a text in UTF-8"
