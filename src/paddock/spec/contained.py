"""Rules for keys that have no effect on an agent in a container, or on one whose image brings its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from paddock.spec.agent import AgentSpec
from paddock.spec.kinds import Mistake

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


def mistakes(agent: AgentSpec) -> Iterator[Mistake]:
    """Yield the keys that would be ignored."""
    if not agent.runtime.is_engine:
        return
    if not agent.image_brings_code:
        yield from _given(agent, agent.not_in_containers)
    elif agent.decided_by_image is None:
        sentence = f"Paddock knows no image with the code of a {agent.kind}; write base: and name a distribution"
        yield ("container", "image"), sentence
    else:
        container = agent.container
        # The name of an image from an archive does not tell what is in the archive.
        if container.image and not container.archive and is_distribution(container.image):
            sentence = f"{container.image} is a distribution without an agent in it; write base: instead of image:"
            yield ("container", "image"), sentence
        yield from _given(agent, {**_DECIDED_BY_EVERY_IMAGE, **agent.decided_by_image})


def is_distribution(image: str) -> bool:
    """Whether an image is known to have no agent in it, in whatever registry it is."""
    *folders, last = image.partition("@")[0].split("/")
    if folders and ("." in folders[0] or ":" in folders[0] or folders[0] == "localhost"):
        del folders[0]
    if folders[:1] == ["library"]:
        del folders[0]
    return "/".join([*folders, last.partition(":")[0]]) in _DISTRIBUTIONS


def _given(agent: AgentSpec, sentences: Mapping[str, str]) -> Iterator[Mistake]:
    for key, sentence in sentences.items():
        if attrgetter(key)(agent):
            yield tuple(key.split(".")), sentence
