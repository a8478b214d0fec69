"""Containers that Paddock made in an engine: the agent's, the one before it, and the one that is being made."""

from __future__ import annotations

import json

from paddock.onboard.agent import Agent
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import found, must, run
from paddock.onboard.program.refusal import FAILED, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


ENGINES = ("docker", "podman")


@frozen
class Engine:
    """The engine of an agent in a container, and what the file asks of it."""

    program: str
    container: str
    image: str
    packages: tuple[str, ...]  # that bring the engine
    info: str  # a format for `ENGINE info`


@frozen
class Container:
    """A container in an engine."""

    name: str
    id: str
    image: str  # the id of the image that it was created from
    pid: int  # of its first process
    labels: dict[str, str]

    @property
    def identity(self) -> str:
        return self.labels.get("paddock.identity", "")

    def is_ours(self, *agents: str) -> bool:
        """Whether it is a container of one of these agents.

        Those of Paddock 0.1 do not name one, and are known by their names. One without Paddock's labels is someone
        else's, whatever its name. A label cannot change: the container of a renamed agent has a former id until it has
        a successor.
        """
        return bool(self.identity) and self.labels.get("paddock.agent", "") in ("", *agents)


def inspect(engine: str, *names: str) -> dict[str, Container]:
    """Return those of the containers that exist, by their names."""
    printed = run([engine, "container", "inspect", *names]).out
    try:
        listed = json.loads(printed or "[]")
    except ValueError:
        raise Refusal(f"{engine} container inspect printed no JSON", FAILED) from None
    made = (
        Container(
            str(each["Name"]).lstrip("/"),
            str(each["Id"]),
            str(each["Image"]).removeprefix("sha256:"),
            int(each["State"]["Pid"]),
            {str(name): str(value) for name, value in (each["Config"].get("Labels") or {}).items()},
        )
        for each in listed
    )
    return {each.name: each for each in made}


def own(engine: str, name: str, *agents: str) -> Container | None:
    """Return a container of one of these agents; None if there is none."""
    there = inspect(engine, name).get(name)
    return there if there and there.is_ours(*agents) else None


def answers(engine: str) -> None:
    """Refuse an engine that does not run, with its own message: it hides containers."""
    must([engine, "ps", "--quiet"])


def drop(engine: str, name: str, *agents: str) -> None:
    """Remove a container of one of these agents."""
    if own(engine, name, *agents):
        must([engine, "rm", "--force", "--volumes", name])


def rename_containers(agent: Agent, former: str) -> None:
    """Give the container of a former id the new name. It keeps its layer until its successor exists."""
    for engine in ENGINES:
        if found(engine):
            drop(engine, f"paddock-{former}.before", former)
            if own(engine, f"paddock-{former}", former):
                must([engine, "rename", f"paddock-{former}", f"paddock-{agent.id}"])


def all_of(engine: str, agents: Sequence[str]) -> dict[str, Container]:
    """Return the containers of these agents in an engine, by their names, of one call."""
    return inspect(engine, *(f"paddock-{each}{suffix}" for each in agents for suffix in ("", ".before")))
