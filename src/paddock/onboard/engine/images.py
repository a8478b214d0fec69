"""Images: names by which an engine keeps them, images with Python that Paddock made, and the images of archives.

An image gets the name KEPT:ID-TIME when Paddock pulls it, and KEPT:ID if it was there before, so that the engine keeps
it when its own tag names a newer one. An image made from a base that lacks Python has the name LAYERED:ID, with the id
of its base. A label would not do: whoever publishes an image can give it any label.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager

from paddock.onboard.agent import Agent, settings
from paddock.onboard.engine.containers import drop, inspect
from paddock.onboard.files import lines, names, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import must, run
from paddock.onboard.program.refusal import FAILED, MISSING, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from paddock.onboard.program.serve import Payload

KEPT, LAYERED, ARCHIVED = (f"localhost/paddock/{name}" for name in ("kept", "python", "archive"))
_SHORT = 16
_PULLED = re.compile(rf"{KEPT}:[0-9a-f]*-(.*)")


def image(engine: str, reference: str) -> dict[str, Any] | None:
    """Return what an engine knows of an image."""
    try:
        found = json.loads(run([engine, "image", "inspect", reference]).out or "[]") if reference else []
    except ValueError:
        raise Refusal(f"{engine} image inspect printed no JSON", FAILED) from None
    return dict(found[0]) if found else None


def image_id(engine: str, reference: str) -> str:
    """Return the id of an image; nothing if there is none."""
    found = image(engine, reference)
    return str(found["Id"]).removeprefix("sha256:") if found else ""


def _own_name(found: dict[str, Any]) -> str:
    """Return a name that Paddock gave an image."""
    return next((str(each) for each in found.get("RepoTags") or () if each.startswith("localhost/paddock/")), "")


def described(engine: str, reference: str) -> dict[str, str] | None:
    """Return an image as `paddock.plan.container.Image` has it; None if there is none. The registry has the digest."""
    found = image(engine, reference)
    if found is None:
        return None
    digests = [str(each).rpartition("@")[2] for each in found.get("RepoDigests") or () if "@" in each]
    name = _own_name(found)
    pulled = _PULLED.fullmatch(name)
    return {
        "id": str(found["Id"]).removeprefix("sha256:"),
        "digest": digests[0] if digests else "",
        "pulled": pulled[1].replace(".", ":") if pulled else "",  # a name cannot have a colon
        "name": name,
    }


def entrypoint(engine: str, reference: str) -> list[str]:
    """Return the program that an image starts."""
    found = image(engine, reference)
    if found is None:
        raise Refusal(f"{engine} has no image {reference}", FAILED)
    return [str(word) for word in (found.get("Config") or {}).get("Entrypoint") or () if word]


def layered_name(base_id: str) -> str:
    return f"{LAYERED}:{base_id[:_SHORT]}"


def with_python(engine: str, reference: str) -> str:
    """Return the image that an agent with code runs in: the base, or the one that Paddock made from it."""
    name = layered_name(image_id(engine, reference))
    return name if image(engine, name) else reference


def is_made_from(engine: str, image_: str, base_id: str) -> bool:
    """Whether an image is this base, or was made from it."""
    return image_ == base_id or (bool(image_) and image_ == image_id(engine, layered_name(base_id)))


def keep(engine: str, id: str, at: str = "") -> None:  # noqa: A002
    """Give an image a name of Paddock's, so that the engine keeps it."""
    found = image(engine, id)
    if found and not _own_name(found):
        must([engine, "tag", id, f"{KEPT}:{id[:_SHORT]}{f'-{at}' if at else ''}"])


def named(engine: str, repository: str) -> list[str]:
    """Return the names of images in a repository. Podman prints every name of an image that has one of these."""
    printed = run([engine, "images", "--format", "{{.Repository}}:{{.Tag}}", repository]).out
    return [line for line in printed.split("\n") if line.startswith(f"{repository}:")]


def drop_kept_images(engine: str, root: str) -> None:
    """Remove the names of images that no agent of the machine was last verified with.

    An image without another name is removed too, unless a container uses it.
    """
    above = os.path.dirname(root)
    needed = {each for agent in names(above) for each in lines(f"{above}/{agent}/images")}
    for repository in (KEPT, LAYERED):
        for name in named(engine, repository):
            if image_id(engine, name) not in needed:
                run([engine, "image", "rm", name])


def drop_images(engine: str, root: str, images: Sequence[str]) -> None:
    """Remove images of archives that no other agent's bundle names. The engine keeps an image that a container uses."""
    above = os.path.dirname(root)
    others = {
        settings(f"{above}/{agent}/{bundle}").get("IMAGE")
        for agent in names(above)
        if f"{above}/{agent}" != root
        for bundle in names(f"{above}/{agent}")
    }
    for name in images:
        if name.startswith(f"{ARCHIVED}:") and name not in others:
            run([engine, "image", "rm", name])


@contextmanager
def dropping_unnamed(agent: Agent, engine: str) -> Iterator[None]:
    """Remove the images of archives that the agent's bundles name before and not afterwards."""

    def images() -> set[str]:
        return {settings(f"{agent.root}/{name}").get("IMAGE", "") for name in names(agent.root)} - {""}

    before = images() if engine else set()
    yield
    if engine:
        drop_images(engine, agent.root, sorted(before - images()))


def record_image(agent: Agent, engine: str) -> None:
    """Record the image with which an agent was verified. The one before it stays, for a rollback."""
    container = f"paddock-{agent.id}"
    drop(engine, f"{container}.before", agent.id)
    found = inspect(engine, container).get(container)
    if found:
        keep(engine, found.image)
        last = lines(f"{agent.root}/images")[:1]
        if [found.image] != last:
            write(f"{agent.root}/images", "".join(f"{each}\n" for each in [found.image, *last]))
        drop_kept_images(engine, agent.root)


@frozen
class PullImage:
    """Pull an image, and keep the image that the agent's container was created from. The container is not touched."""

    engine: str
    image: str
    container: str

    def perform(self, _: Payload) -> dict[str, Any]:
        there = inspect(self.engine, self.container).get(self.container)
        before = described(self.engine, there.image) if there else None
        if there:
            keep(self.engine, there.image)  # before the pull can take its name away
            before = described(self.engine, there.image)
        must([self.engine, "pull", "--quiet", self.image], seconds=3600, shown=True)
        after = image_id(self.engine, self.image)
        if not after:
            raise Refusal(f"{self.engine} does not have {self.image} after it was pulled", FAILED)
        keep(self.engine, after, time.strftime("%Y-%m-%dT%H.%M.%SZ", time.gmtime()))
        if there and is_made_from(self.engine, there.image, after):
            after = there.image  # the container has it, perhaps with a layer on it
        return {"before": before, "after": described(self.engine, after)}


@frozen
class NameImage:
    """Name the image that an engine has loaded from a whole archive, and drop the names that the archive brought.

    They would keep the image when no agent uses it any more.
    """

    engine: str
    loaded: tuple[str, ...]  # what the engine printed about it: names, or an id
    name: str
    known: tuple[str, ...]  # names that the engine had before

    def perform(self, _: Payload) -> None:
        if not self.loaded:
            raise Refusal(f"{self.engine} has loaded no image", FAILED)
        must([self.engine, "tag", self.loaded[-1], self.name])
        named = [each for each in self.loaded if ":" in each and not each.startswith("sha256:")]  # the others are ids
        brought = [each for each in named if each not in self.known]
        if brought:
            must([self.engine, "image", "rm", *brought])


@frozen
class UsableImage:
    """Report the image for an agent with code: its base, or one made from the base that has Python too.

    The distribution's Python is installed in a container, which becomes the new image. The base stays as it is: it may
    be used by others too. A run that is killed leaves the container, which the next one removes.
    """

    engine: str
    base: str
    agent: str
    packages: str  # the shell program that finds Python in a container, or installs it there
    versions: tuple[str, ...]

    def perform(self, _: Payload) -> str:
        usable = with_python(self.engine, self.base)
        if self._has_python(usable):
            return usable
        drop_layer(self.engine, self.agent)
        name = f"paddock-{self.agent}.layer"
        # Through the machine's network, as the agent's container.
        words = ["--name", name, "--label", f"paddock.layer={self.agent}", "--network", "host"]
        done = run(self._program(words, self.base, "add-python"), seconds=900, shown=True)
        if done.ok:
            made = ["--change", "ENTRYPOINT []", "--change", 'CMD ["/bin/sh"]', name]
            must([self.engine, "commit", *made, layered_name(image_id(self.engine, self.base))])
        drop_layer(self.engine, self.agent)
        if done.code not in (0, MISSING):
            raise Refusal(f"Python cannot be installed in {self.base}", done.code)
        return with_python(self.engine, self.base)

    def _has_python(self, tried: str) -> bool:
        words = ["--rm", "--network", "none", "--env", "THROWAWAY=yes"]
        return "\0python=" in f"\0{run(self._program(words, tried, 'python')).out}"

    def _program(self, options: Sequence[str], tried: str, what: str) -> list[str]:
        argv = [self.engine, "run", *options, "--entrypoint", "/bin/sh", tried, "-c", self.packages, "paddock"]
        return [*argv, what, *self.versions]


def drop_layer(engine: str, agent: str) -> None:
    """Remove the container in which such an image is made."""
    name = f"paddock-{agent}.layer"
    there = inspect(engine, name).get(name)
    if there and there.labels.get("paddock.layer") == agent:
        must([engine, "rm", "--force", "--volumes", name])
