"""Files that the file names: whether they can be read, and are what they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from paddock.errors import BadInput
from paddock.spec.agent import AgentSpec, HermesSpec, LitellmSpec
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
                for problem in _config_problems(name, folder, agent.config_file):
                    yield (*at, "config_file"), problem


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


def _config_problems(agent: str, folder: Path, path: Path) -> Iterator[str]:
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
    yield from (f"{origin}: {dotted(origin.path)} {sentence}" for origin, sentence in tree.mistakes)
    settings = grafted(tree, ("agents", agent, "settings"))
    for location, sentence in suspects(settings):
        origin = settings.origin(location)
        yield f"{origin}: {dotted(origin.path)} {sentence}"
