"""Files that the file names: whether they can be read, and are what they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from paddock.errors import BadInput
from paddock.spec.agent import AgentSpec
from paddock.spec.suspects import looks_like_a_secret
from paddock.spec.tree import Location


def unusable(agents: Mapping[str, AgentSpec], folder: Path) -> Iterator[tuple[Location, str]]:
    """Where in the file a file is named that cannot be used, and why."""
    for name, agent in agents.items():
        at = ("agents", name)
        for title, document in agent.documents.items():
            if document.file is not None:
                text, problem = text_of(folder, document.file)
                if problem or looks_like_a_secret(text):
                    yield (*at, "documents", title), problem or f"{document.file} has something like a secret in it"
        if agent.container.archive is not None:
            yield from unreadable((*at, "container", "archive"), folder, agent.container.archive)


def inlined(agent: AgentSpec, folder: Path) -> AgentSpec:
    """Return the agent with the texts of the files it names: nothing behind this has to read any."""
    return agent.with_texts(lambda path: _needed(folder, path))


def _needed(folder: Path, path: Path) -> str:
    text, problem = text_of(folder, path)
    if problem:
        raise BadInput(problem)
    return text


def unreadable(location: Location, folder: Path, path: Path) -> Iterator[tuple[Location, str]]:
    """Yield the mistake of a file that cannot be read."""
    try:
        (folder / path.expanduser()).open("rb").close()
    except OSError as error:
        yield location, f"cannot read {path}: {error.strerror}"


def text_of(folder: Path, path: Path) -> tuple[str, str]:
    """The text of a file, and what is wrong with it."""
    try:
        return (folder / path.expanduser()).read_text(encoding="utf-8"), ""
    except OSError as error:
        return "", f"cannot read {path}: {error.strerror}"
    except ValueError:
        return "", f"{path} is not a text in UTF-8"
