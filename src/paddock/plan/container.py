"""The container's part of a plan: its engine, its image, and the software that is lost with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from paddock.base.frozen import frozen
from paddock.plan import actions
from paddock.plan.step import Phase, Refusal, Risk, Step

_UNKNOWN: Final = "-"
_SHORT: Final = 19  # characters of a digest that tell two images apart: sha256: and 12 more


@frozen
class Image:
    """An image in the engine of a machine."""

    id: str  # in this engine
    digest: str = ""  # in the registry that it was pulled from
    pulled: str = ""  # when, in UTC; not known if Paddock did not pull it
    name: str = ""  # the tag of Paddock that keeps it, also when its own tag names a newer image

    @property
    def shown(self) -> str:
        """The digest in the registry, or the engine's own id."""
        return self.digest or f"sha256:{self.id}"

    @property
    def short(self) -> str:
        return self.shown[:_SHORT]

    def reference(self, name: str) -> str:
        """Return what names exactly this image, which had this name: its digest, or the name that Paddock gave it."""
        if not self.digest:
            return self.name
        folder, slash, last = name.partition("@")[0].rpartition("/")
        return f"{folder}{slash}{last.partition(':')[0]}@{self.digest}"


@frozen
class ImagesSeen:
    """The images of an agent in the engine of its machine."""

    present: Image | None = None  # the image that the name in the file means in the engine
    runs: Image | None = None  # the image of the container
    before: Image | None = None  # the image that the agent was verified with before

    @property
    def outdated(self) -> bool:
        """Whether the container runs another image than its name means now."""
        return self.present is not None and self.runs is not None and self.present.id != self.runs.id

    def difference(self, name: str) -> str:
        """Say which image the container runs, and which one its name means now."""
        old, new = (image.short if image else "no image" for image in (self.runs, self.present))
        return f"the container runs {old}, and {name} is {new} now"


def image_notes(name: str, seen: ImagesSeen) -> Iterator[str]:
    """Yield a note about a container that runs an older image than the engine has."""
    if seen.outdated:
        yield f"{seen.difference(name)}; `paddock up --pull` pulls it again and recreates the container"


ENGINES: Final = frozenset({"docker", "podman"})
_FOREIGN: Final = "foreign"  # a container with the agent's container name, but without Paddock's label

# The parts of a container's identity, in the words of the file.
_PARTS: Final = {
    "image": "image",
    "volumes": "volumes or mounts",
    "options": "options",
    "limits": "limits or shared memory",
    "account": "account",
    "schema": "format",
}


_STORAGE_HINTS: Final = {
    None: "keep the engine's data on a filesystem that supports overlay, like ext4 or xfs",
    False: "container: {data: 20G} gives the engine a data volume that supports overlay",
    True: "the filesystem of the data volume does not support overlay; use a storage with block devices",
}

_WITHOUT_ROOT: Final = (
    "root has to prepare the machine once: install podman and newuidmap (Debian: apt-get install podman uidmap), and"
    " usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ACCOUNT"
)


@frozen
class ContainerWant:
    """The container that the file asks for."""

    engine: str
    service: str | None  # the unit of the engine's daemon
    install: bool  # Paddock installs the engine too
    image: str
    archive: bool  # the image is loaded from a file of this machine
    identity: str  # ``name=hash`` words; another identity needs a new container
    data: bool | None = None  # the engine has a data volume; None where the place offers none
    recreate: bool = False  # a person asked for a new container
    pull: bool = False  # a person asked to pull the image again
    renew: bool = False  # a container of an older image is recreated
    without_root: bool = False  # the engine runs in an account, without root
    name: str = ""
    packages: Sequence[str] = ()  # of the distribution, which the container's start installs

    @property
    def pulls(self) -> bool:
        """Whether the image is pulled again: a digest or an archive cannot mean another image later."""
        return self.pull and not self.archive and "@" not in self.image


@frozen
class ContainerSeen:
    """The engine and the agent's container, as the runtime's observe script reports them."""

    engine: str = "missing"  # or "up", or "down: REASON"
    driver: str = ""
    images: frozenset[str] = frozenset()
    identity: str | None = None  # of the existing container
    layer: Sequence[str] = ()  # software installed in the container since it was created
    live_restore: bool = False  # containers keep running when the engine's daemon stops
    image: ImagesSeen = field(default_factory=ImagesSeen)

    @property
    def ours(self) -> bool:
        return self.identity not in {None, _FOREIGN}

    @property
    def lost(self) -> str:
        return _lost(self.layer)


# An engine with an empty data volume.
NOTHING_YET: Final = ContainerSeen(engine="up")


def refusal(agent: str, want: ContainerWant, seen: ContainerSeen) -> Refusal | None:
    """Return why the agent's container cannot run on a machine in this condition, or None."""
    if seen.engine == "missing" and not want.install:
        way = "container: {install: true} installs it from the distribution's packages"
        return Refusal(
            f"{agent} runs in {want.engine}, which is not installed on its machine",
            _WITHOUT_ROOT if want.without_root else way,
            code="engine.missing",
        )
    if seen.engine.startswith("down") and not (want.install and want.service):
        start = f"on the machine: systemctl enable --now {want.service}"
        storage = f"if storage is the reason: {_STORAGE_HINTS[want.data]}"
        return Refusal(
            f"{want.engine} does not work on the machine of {agent}: {seen.engine[6:]}",
            _WITHOUT_ROOT if want.without_root else start if want.service else storage,
            code="engine.down",
        )
    if seen.live_restore:
        return Refusal(
            f"{want.engine} on the machine of {agent} keeps containers running when its daemon stops,"
            " so a container could outlive its lease",
            'remove "live-restore" from /etc/docker/daemon.json on the machine, then: systemctl reload docker',
            code="engine.live-restore",
        )
    if seen.identity == _FOREIGN:
        return Refusal(
            f"the machine has a container {want.name} that Paddock did not create for {agent}",
            "rename or remove it",
            code="container.foreign",
        )
    return None


def notes(want: ContainerWant, seen: ContainerSeen) -> Iterator[str]:
    """Yield notes about the engine."""
    if seen.driver == "vfs":
        way = _STORAGE_HINTS[want.data]
        yield (
            f"{want.engine} stores a full copy of every image layer (storage driver vfs), which takes time and several"
            f" times the disk space: {way}"
        )
    if seen.identity == want.identity and not (want.pull or want.renew or want.recreate):
        yield from image_notes(want.image, seen.image)


def hidden_by_new_volume(seen: ContainerSeen) -> Iterator[str]:
    """Yield a note about a container that the engine no longer sees, because its data volume is a new one."""
    if seen.ours:
        yield f"the container on the root disk is left there and not used{seen.lost}"


def start_step(want: ContainerWant, seen: ContainerSeen) -> Step | None:
    """Return the step that starts a stopped engine, if any. Its containers are observable only afterwards."""
    if not seen.engine.startswith("down") or want.service is None:
        return None
    reason = "it is not running; its containers can be observed only while it runs"
    return Step("engine.start", f"start {want.engine}", reason, actions.StartEngine(want.service), phase=Phase.SOFTWARE)


def pull_step(want: ContainerWant, seen: ContainerSeen) -> Step | None:
    """Return the step that pulls the image of an existing container again, if any.

    Whether the container has to be recreated is known only afterwards.
    """
    return next(image_steps(want, seen), None) if want.pulls and seen.ours else None


def image_steps(want: ContainerWant, seen: ContainerSeen) -> Iterator[Step]:
    """Yield the step that gets the image, if it is missing, or if it is pulled again."""
    if want.pulls:
        reason = "a person asked for it; the container runs on meanwhile" if seen.ours else "a person asked for it"
        yield Step("image.pull", f"pull {want.image}", reason, actions.PullImage(want.image), phase=Phase.SOFTWARE)
    elif want.image not in seen.images:
        title = "load the image from its archive" if want.archive else f"pull {want.image}"
        step_id = f"image.{'load' if want.archive else 'pull'}"
        yield Step(step_id, title, "the engine does not have it", actions.GetImage(want.image), phase=Phase.SOFTWARE)


def try_step(want: ContainerWant, reason: str) -> Step:
    """Return the step that tries the image before anything stops."""
    title = f"try {want.image} in a throwaway container"
    return Step("image.try", title, reason, actions.TryImage(want.image), phase=Phase.SOFTWARE)


def create_steps(
    agent: str, want: ContainerWant, seen: ContainerSeen, bundle_id: str, moved: str = ""
) -> Iterator[Step]:
    """Yield the step that creates or recreates the container, if one is needed.

    ``moved`` says what of the agent's id changes: the container mounts paths with the id.
    """
    if seen.identity is None:
        action = actions.CreateContainer(bundle_id, replaces=False)
        yield Step("container.create", f"create the container of {agent}", "it has none", action, phase=Phase.AGENT)
    elif why := _why_recreate(want, seen, moved):
        reason = f"{why}; the state of {agent} is kept{seen.lost}"
        action = actions.CreateContainer(bundle_id, replaces=True)
        title = f"recreate the container of {agent}"
        yield Step("container.recreate", title, reason, action, Risk.RECREATES, Phase.AGENT)


def packages_step(agent: str, want: ContainerWant) -> Step:
    """Return the step that waits for the packages of a container that was started."""
    title = f"install {', '.join(want.packages)} in the container of {agent}"
    reason = "its start installs those that it lacks"
    return Step("container.packages", title, reason, actions.AwaitPackages(), phase=Phase.AGENT)


def _why_recreate(want: ContainerWant, seen: ContainerSeen, moved: str) -> str | None:
    if seen.identity != want.identity and moved:
        return f"{moved}, which is part of the paths that it mounts"
    if seen.identity != want.identity:
        old, new = _words(seen.identity or ""), _words(want.identity)
        parts = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return f"its {' and '.join(_PARTS.get(part, part) for part in parts)} changed"
    if want.renew and seen.image.outdated:
        return seen.image.difference(want.image)
    return "a person asked for it" if want.recreate else None


def _words(identity: str) -> Mapping[str, str]:
    return dict(word.split("=", 1) for word in identity.split() if "=" in word)


def leftover_steps(agent: str, left: Mapping[str, Sequence[str]]) -> Iterator[Step]:
    """Yield the steps that remove the agent's containers from engines it no longer uses."""
    for engine, layer in left.items():
        title = f"remove the container of {agent} from {engine}"
        reason = f"{agent} no longer runs there{_lost(layer)}"
        yield Step("container.remove", title, reason, actions.RemoveContainer(engine), Risk.RECREATES, Phase.CLEANUP)


def _lost(layer: Sequence[str]) -> str:
    """Name the software that is lost with a container, as the end of a sentence."""
    return f"; lost with the container: {', '.join(layer)}" if layer else "; no software was installed in the container"
