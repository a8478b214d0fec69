"""Files that the file names: whether they can be read, and are what they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from paddock.errors import BadInput
from paddock.spec.agent import AgentSpec, HermesSpec, LitellmSpec
from paddock.spec.tree import Location, dotted, read


def unreadable(agents: Mapping[str, AgentSpec], folder: Path) -> Iterator[tuple[Location, str]]:
    """Where in the file a file is named that cannot be used, and why."""
    for name, agent in agents.items():
        at = ("agents", name)
        for title, document in agent.documents.items():
            if document.file is not None:
                yield from _problem((*at, "documents", title), folder, document.file)
        if agent.container.archive is not None:
            yield from _problem((*at, "container", "archive"), folder, agent.container.archive, text=False)
        if isinstance(agent, HermesSpec | LitellmSpec):
            if agent.package is not None and not (folder / agent.package.expanduser()).is_dir():
                yield from _problem((*at, "package"), folder, agent.package, text=False)
            if agent.config_file is not None:
                yield from _config_problem((*at, "config_file"), folder, agent.config_file)


def _problem(location: Location, folder: Path, path: Path, *, text: bool = True) -> Iterator[tuple[Location, str]]:
    try:
        with (folder / path.expanduser()).open("rb") as file:
            if text:
                file.read().decode()
    except OSError as error:
        yield location, f"cannot read {path}: {error.strerror}"
    except (UnicodeDecodeError, ValueError):
        yield location, f"{path} is not a text in UTF-8"


def _config_problem(location: Location, folder: Path, path: Path) -> Iterator[tuple[Location, str]]:
    problems = list(_problem(location, folder, path))
    yield from problems
    if problems:
        return
    # Hermes takes a broken file for an empty one and goes on with its defaults.
    try:
        tree = read((folder / path.expanduser()).read_text(encoding="utf-8"), str(path))
    except BadInput as error:
        yield location, error.message
        return
    if not isinstance(tree.data, dict):
        yield location, f"{path} is not a mapping"
    for origin, sentence in tree.mistakes:
        yield location, f"{origin}: {dotted(origin.path)} {sentence}"
