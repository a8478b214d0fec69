"""Rules for keys that have no effect on an agent in a container, or on one whose image brings its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from paddock.spec.agent import AgentSpec
from paddock.spec.kinds import Mistake

_DECIDED_BY_EVERY_IMAGE: Final = {
    "packages": "the image brings its own packages; use an image that has these, or write base: instead of image:",
    "container.sudo": "the image drops from root to the agent's account by itself; write base: instead of image:",
}


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
        yield from _given(agent, {**_DECIDED_BY_EVERY_IMAGE, **agent.decided_by_image})


def _given(agent: AgentSpec, sentences: Mapping[str, str]) -> Iterator[Mistake]:
    for key, sentence in sentences.items():
        if attrgetter(key)(agent):
            yield tuple(key.split(".")), sentence
