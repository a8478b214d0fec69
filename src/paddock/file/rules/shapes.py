"""Keys that have no effect in the shape of an agent, in a container, or with an image that brings the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Self

from paddock.base.frozen import frozen
from paddock.file.kinds import Mistake
from paddock.file.models.agent import AgentSpec, RuntimeName
from paddock.file.models.machine import MachineSpec
from paddock.file.models.place import PLACES, PlaceSpec, Scope
from paddock.file.tree import Location

_OF_A_UNIT: Final = ("memory", "cores")  # limits of an agent's units on a host
_OF_A_VOLUME: Final = ("backup", "pet", "size", "storage", "volume")


@frozen
class Shape:
    """The facts that decide which keys have an effect. ``on_host`` is None if the place is unknown."""

    kind: type[AgentSpec]
    runtime: str
    on_host: bool | None
    without_root: bool
    brings_code: bool  # the image contains the agent's code

    @classmethod
    def of(cls, agent: AgentSpec, place: PlaceSpec) -> Self:
        """Return the shape of a valid agent."""
        scope = place.host.scope if place.host else None
        image = agent.container.image is not None
        return cls(type(agent), agent.runtime, place.host is not None, scope is Scope.USER, image)

    @classmethod
    def in_data(cls, kind: type[AgentSpec], agent: Mapping[str, Any], place: Any) -> Self:
        """Return the shape of an agent that was not validated yet."""
        host = place.get("host") if isinstance(place, dict) else None
        known = isinstance(place, dict) and len(place.keys() & PLACES.keys()) == 1
        container = agent.get("container")
        return cls(
            kind,
            str(agent.get("runtime", RuntimeName.SYSTEMD)),
            "host" in place if known else None,
            isinstance(host, dict) and host.get("scope") == Scope.USER,
            isinstance(container, dict) and container.get("image") is not None,
        )

    @property
    def _in_container(self) -> bool:
        return self.runtime in (RuntimeName.DOCKER, RuntimeName.PODMAN)

    def without_effect(self) -> Iterator[Mistake]:
        """Yield the keys that have no effect in this shape, and why."""
        if self.on_host:
            yield from self._of_a_machine()
            for key in _OF_A_VOLUME:
                yield (
                    ("state", key),
                    "needs a proxmox place; on a host the state is a directory, and only path: applies",
                )
        if not self._in_container:
            yield ("container",), f"container needs runtime docker or podman, not {self.runtime}"
        if self.runtime == RuntimeName.PROCESS:
            yield ("user",), "runtime process runs the agent in your own account; remove user:"
            yield ("verify", "timeout"), "with runtime process nobody waits for the agent; `paddock run` shows its log"
        elif self.without_root:
            yield from self._of_an_account()
        for path, why in self.kind.without_effect.items():
            yield tuple(path.split(".")), why

    def _of_a_machine(self) -> Iterator[Mistake]:
        if self.runtime == RuntimeName.SYSTEMD:
            for key in MachineSpec.model_fields:
                if key not in _OF_A_UNIT:
                    why = "needs a proxmox place; on a host only memory and cores apply, as limits of the agent's units"
                    yield ("machine", key), why
            return
        more = "; container.memory and container.cpus limit the container" if self._in_container else ""
        yield ("machine",), f"machine needs a proxmox place; Paddock does not create hosts{more}"

    def _of_an_account(self) -> Iterator[Mistake]:
        if not self._in_container:
            yield ("user",), "with scope: user the agent runs in the account that Paddock logs in to; remove user:"
            return
        yield ("user", "create"), "with scope: user the account exists in the container only, and is created there"
        if self.brings_code:
            yield ("user", "group"), "the image names the group; with scope: user only its number counts (gid:)"


def mistakes(agent: AgentSpec, place: PlaceSpec) -> Iterator[Mistake]:
    """Yield the keys of an agent that have no effect."""
    for path, why in Shape.of(agent, place).without_effect():
        if _given(agent, path):
            yield path, why
    for name, port in agent.expose.items():
        if name not in agent.ports() and "address" in port.model_fields_set:
            yield ("expose", name, "address"), "its program decides where it listens; leave the address out here"


def _given(agent: AgentSpec, path: Location) -> bool:
    """Whether the file has the key. Without a name in the file, the account is named after the kind."""
    part: Any = agent
    for name in path[:-1]:
        part = getattr(part, name)
    if path == ("user",):
        return bool(agent.user.model_fields_set - {"name"}) or agent.user.name != agent.kind
    value = getattr(part, path[-1])
    return bool(getattr(value, "model_fields_set", path[-1] in part.model_fields_set))


_DECIDED_BY_EVERY_IMAGE: Final = {
    "packages": "the image brings its own packages; use an image that has these, or write base: instead of image:",
    "container.writable": "the image drops from root to the agent's account by itself; write base: instead of image:",
    "container.sudo": "the image drops from root to the agent's account by itself; write base: instead of image:",
}

# Images of distributions, and of languages on one, with nothing else in them. Registries have them under their own
# names, or under `library/`.
_DISTRIBUTIONS: Final = frozenset(
    {
        *("ubuntu", "debian", "alpine", "fedora", "centos", "rockylinux", "almalinux", "amazonlinux", "oraclelinux"),
        *("archlinux", "opensuse/leap", "opensuse/tumbleweed", "kalilinux/kali-rolling", "nixos/nix", "busybox"),
        *("ubi8", "ubi9", "ubi8/ubi", "ubi9/ubi", "ubi8/ubi-minimal", "ubi9/ubi-minimal", "buildpack-deps"),
        *("python", "node"),
    }
)


def container_mistakes(agent: AgentSpec) -> Iterator[Mistake]:
    """Yield the keys that would be ignored."""
    if not agent.runtime.is_engine:
        return
    if not agent.image_brings_code:
        yield from _given_in_container(agent, agent.not_in_containers)
    elif agent.decided_by_image is None:
        sentence = f"Paddock knows no image with the code of a {agent.kind}; write base: and name a distribution"
        yield ("container", "image"), sentence
    else:
        container = agent.container
        # The name of an image from an archive does not tell what is in the archive.
        if container.image and not container.archive and is_distribution(container.image):
            sentence = f"{container.image} is a distribution without an agent in it; write base: instead of image:"
            yield ("container", "image"), sentence
        yield from _given_in_container(agent, {**_DECIDED_BY_EVERY_IMAGE, **agent.decided_by_image})


def is_distribution(image: str) -> bool:
    """Whether an image is known to have no agent in it, in whatever registry it is."""
    *folders, last = image.partition("@")[0].split("/")
    if folders and ("." in folders[0] or ":" in folders[0] or folders[0] == "localhost"):
        del folders[0]
    if folders[:1] == ["library"]:
        del folders[0]
    return "/".join([*folders, last.partition(":")[0]]) in _DISTRIBUTIONS


def _given_in_container(agent: AgentSpec, sentences: Mapping[str, str]) -> Iterator[Mistake]:
    for key, sentence in sentences.items():
        if attrgetter(key)(agent):
            yield tuple(key.split(".")), sentence
