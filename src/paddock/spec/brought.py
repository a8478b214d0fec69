"""Rules for an agent whose image brings its code: keys that the image decides are refused."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from paddock.spec.agent import AgentSpec
from paddock.spec.kinds import Mistake

_OF_EVERY_KIND: Final = {
    "packages": "the image brings its own packages; use an image that has these, or write base: instead of image:",
    "container.sudo": "the image drops from root to the agent's account by itself; write base: instead of image:",
}


def mistakes(agent: AgentSpec) -> Iterator[Mistake]:
    """Yield the keys that have no effect on an agent whose image brings its code."""
    if not agent.image_brings_code:
        return
    if agent.decided_by_image is None:
        sentence = f"Paddock knows no image with the code of a {agent.kind}; write base: and name a distribution"
        yield ("container", "image"), sentence
        return
    for key, sentence in {**_OF_EVERY_KIND, **agent.decided_by_image}.items():
        if attrgetter(key)(agent):
            yield tuple(key.split(".")), sentence
