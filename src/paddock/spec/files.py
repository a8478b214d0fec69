"""Files that the file names: whether they can be read, and are what they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.errors import BadInput
from paddock.spec import settings
from paddock.spec.agent import AgentSpec, DocumentSpec, HermesSpec, LitellmSpec
from paddock.spec.suspects import looks_like_a_secret, suspects
from paddock.spec.tree import Location, dotted, grafted, read


def unusable(agents: Mapping[str, AgentSpec], folder: Path) -> Iterator[tuple[Location, str]]:
    """Where in the file a file is named that cannot be used, and why."""
    for name, agent in agents.items():
        at = ("agents", name)
        for title, document in agent.documents.items():
            if document.file is not None:
                text, problem = _text(folder, document.file)
                if problem or looks_like_a_secret(text):
                    yield (*at, "documents", title), problem or f"{document.file} has something like a secret in it"
        if agent.container.archive is not None:
            yield from _unreadable((*at, "container", "archive"), folder, agent.container.archive)
        if isinstance(agent, HermesSpec | LitellmSpec):
            if agent.package is not None and not (folder / agent.package.expanduser()).is_dir():
                yield from _unreadable((*at, "package"), folder, agent.package)
            if agent.config_file is not None:
                for problem in _config_problems(agent, folder, agent.config_file):
                    yield (*at, "config_file"), problem


def inlined(agent: AgentSpec, folder: Path) -> AgentSpec:
    """Return the agent with the texts of the files it names: nothing behind this has to read any."""
    texts = {
        title: DocumentSpec(text=_needed(folder, document.file)) if document.file else document
        for title, document in agent.documents.items()
    }
    changes: dict[str, Any] = {"documents": texts}
    if isinstance(agent, HermesSpec | LitellmSpec) and agent.config_file is not None:
        tree = read(_needed(folder, agent.config_file), str(agent.config_file))
        changes |= {"settings": tree.data or {}, "config_file": None}
    return agent.model_copy(update=changes)


def _needed(folder: Path, path: Path) -> str:
    text, problem = _text(folder, path)
    if problem:
        raise BadInput(problem)
    return text


def _unreadable(location: Location, folder: Path, path: Path) -> Iterator[tuple[Location, str]]:
    try:
        (folder / path.expanduser()).open("rb").close()
    except OSError as error:
        yield location, f"cannot read {path}: {error.strerror}"


def _text(folder: Path, path: Path) -> tuple[str, str]:
    """The text of a file, and what is wrong with it."""
    try:
        return (folder / path.expanduser()).read_text(encoding="utf-8"), ""
    except OSError as error:
        return "", f"cannot read {path}: {error.strerror}"
    except ValueError:
        return "", f"{path} is not a text in UTF-8"


def _config_problems(agent: HermesSpec | LitellmSpec, folder: Path, path: Path) -> Iterator[str]:
    """Hermes takes a broken configuration for an empty one and goes on with its defaults, so it is read here first."""
    text, problem = _text(folder, path)
    if problem:
        yield problem
        return
    try:
        tree = read(text, str(path))
    except BadInput as error:
        yield error.message
        return
    if not isinstance(tree.data, dict):
        yield f"{path} is not a mapping"
        return
    yield from (f"{origin}: {dotted(origin.path)} {sentence}" for origin, sentence in tree.mistakes)
    at = ("agents", "", "settings")
    grown = grafted(tree, at)
    found = [*suspects(grown)]
    if isinstance(agent, HermesSpec):
        found += [((*at, *location), sentence) for location, sentence in settings.mistakes(agent, tree.data)]
    for location, sentence in found:
        origin = grown.origin(location)
        yield f"{origin}: {dotted(origin.path)} {sentence}"
