"""Rules for mounts and volumes: they hide no needed folder, and give no foreign directory to an agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from paddock.file.models.agent import AgentSpec
from paddock.file.models.fields import one_form
from paddock.file.rules.folders import given_away, hidden_by, overlap, within
from paddock.file.tree import Location

_Mistake = tuple[Location, str]

# Where a container has the agent's part of the state, with ``base`` and with ``image``.
_STATE_WITH_A_BASE: Final = ("/data",)
_STATE_WITH_AN_IMAGE: Final = ("/srv/agent", "/opt/data")


def mistakes(agent: AgentSpec, state: str | None, states: Mapping[str, str]) -> Iterator[_Mistake]:
    """Yield the mistakes in one agent's mounts and volumes.

    ``state`` is the path of its state; ``states`` maps the states on its host to their agents.
    """
    if wrong := wrong_directory(agent, state):
        yield ("working_directory",), wrong
    inside = dict(_in_its_container(agent))
    own = {state: "the agent's own state"} if state else {}
    for number, mount in enumerate(agent.mounts):
        at = ("mounts", str(number))
        if wrong := hidden_by(mount.path, own | inside) or _hides_the_home(agent, mount.path):
            yield (*at, "path"), wrong
        if wrong := given_away(mount.host, states, read_only=mount.read_only):
            yield (*at, "host"), wrong
        for other in agent.mounts[:number]:
            if other.path == mount.path:
                yield (*at, "path"), f"{mount.path} is mounted twice"
            elif overlap(other.path, mount.path):
                yield (*at, "path"), f"{other.path} is mounted too, and one of the mounts would hide the other"
    for number, volume in enumerate(agent.container.volumes):
        for sentence in _volume(agent, volume, inside, states):
            yield ("container", "volumes", str(number)), sentence


def wrong_directory(agent: AgentSpec, state: str | None) -> str | None:
    """Return why `up` could not make the working directory, or None. Links are resolved on the machine only."""
    path = agent.working_directory
    if not path.startswith("/"):
        return None
    inside = [folder for folder, _ in _in_its_container(agent)]
    if agent.runtime.is_engine:
        given = [mount.path for mount in agent.mounts] + [each.split(":")[1] for each in agent.container.volumes]
        # Of the paths of the state, the first is the agent's home.
        if any(within(path, each) for each in (*inside[:1], *given)):
            return None
        return f"write a path below the agent's home ({PurePosixPath(path).name}), or below a mount"
    if state and overlap(path, state) and not within(path, f"{state}/home"):
        rest = PurePosixPath(path).relative_to(state) if within(path, state) else PurePosixPath()
        below = str(rest) if rest.parts and rest.parts[0] != ".paddock" else "workspace"
        return f"{state} belongs to root, and the agent's home is {state}/home; write {below}, which is below it"
    return hidden_by(path, {}, itself=False)


def _volume(agent: AgentSpec, volume: str, inside: Mapping[str, str], states: Mapping[str, str]) -> Iterator[str]:
    """Yield the mistakes in a volume of the container; volumes may be single files and sockets of the system."""
    host, path = (volume.split(":"))[:2]
    try:
        path = one_form(path)
        host = one_form(host) if host.startswith("/") else ""  # otherwise it is a volume's name
    except ValueError as error:
        yield f"both sides {error}"
        return
    if wrong := hidden_by(path, inside, itself=True) or _hides_the_home(agent, path):
        yield wrong
    if host and (wrong := given_away(host, states, read_only=True)):
        yield wrong
    if path in [mount.path for mount in agent.mounts]:
        yield f"{path} is mounted twice"


def _in_its_container(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    if agent.runtime.is_engine:
        for folder in _STATE_WITH_AN_IMAGE if agent.container.image else _STATE_WITH_A_BASE:
            yield folder, "the path of the agent's state in the container"


def _hides_the_home(agent: AgentSpec, path: str) -> str | None:
    """Return why a path cannot be mounted: everything in the account's home in a container becomes the account's."""
    home = f"/home/{agent.user.name}"
    if agent.runtime.is_engine and agent.container.image is None and within(home, path):
        return f"{home} is the account's home in the container, whose files the account owns; choose a path below it"
    return None
