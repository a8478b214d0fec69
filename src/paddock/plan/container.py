"""What to do about an agent's container: when it is made, when it is made anew, and what goes with the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from paddock.plan.step import Action, Refusal, Risk, Step

ENGINES: Final = frozenset({"docker", "podman"})
_FOREIGN: Final = "foreign"  # a container of our name without our label

# The parts of a container's identity, as people know them from their file.
_PARTS: Final = {
    "image": "image",
    "volumes": "volumes or mounts",
    "options": "options",
    "limits": "limits or shared memory",
    "account": "account",
    "schema": "way of being made",
}


_WAYS_OUT: Final = {
    None: "a filesystem like ext4 or xfs below its data gives it overlay",
    False: "container: {data: 20G} gives it a volume of its own, where overlay works",
    True: "its volume is not on a filesystem that overlay works on; give it a storage with block devices",
}

_WITHOUT_ROOT: Final = (
    "it takes root once, on the machine: apt-get install podman uidmap, and"
    " usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ACCOUNT"
)


@dataclass(frozen=True)
class ContainerWant:
    """The container as the file has it."""

    engine: str
    service: str | None  # the unit of the engine's daemon
    install: bool  # the engine is Paddock's business too
    image: str
    archive: bool  # the image comes from a file here
    identity: str  # ``name=hash`` words; another one needs another container
    data: bool | None = None  # the engine has a volume of its own; None where it cannot
    recreate: bool = False  # a person asked for a new one
    without_root: bool = False  # the engine is an account's own


@dataclass(frozen=True)
class ContainerSeen:
    """The engine and the container, as the runtime's observe script reports them."""

    engine: str = "missing"  # or up, or down and why
    driver: str = ""
    images: frozenset[str] = frozenset()
    identity: str | None = None  # of the container that is there
    layer: Sequence[str] = ()  # what was installed in it since it was made
    live_restore: bool = False  # containers of this engine outlive its daemon

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[str, str]]) -> Self:
        values = dict(pairs)
        driver, _, live_restore = values.get("info", "").partition(" ")
        return cls(
            engine=values.get("engine", "missing"),
            driver=driver,
            live_restore=live_restore == "true",
            images=frozenset(value for name, value in pairs if name == "image"),
            identity=values.get("container"),
            layer=tuple(sorted({value for name, value in pairs if name == "layer"})),
        )

    @property
    def ours(self) -> bool:
        return self.identity not in {None, _FOREIGN}

    @property
    def lost(self) -> str:
        return _lost(self.layer)


# Of an engine that will run and find nothing of its own.
NOTHING_YET: Final = ContainerSeen(engine="up")


@dataclass(frozen=True)
class StartEngine(Action):
    service: str


@dataclass(frozen=True)
class GetImage(Action):
    image: str


@dataclass(frozen=True)
class CreateContainer(Action):
    bundle_id: str
    replaces: bool  # one that was seen, with what is in it


@dataclass(frozen=True)
class RemoveContainer(Action):
    engine: str


def refusal(agent: str, want: ContainerWant, seen: ContainerSeen) -> Refusal | None:
    """What stands against a container on a machine like this."""
    if seen.engine == "missing" and not want.install:
        way = "container: {install: true} installs it from the distribution's packages"
        return Refusal(
            f"{agent} is to run in {want.engine}, which is not on its machine",
            _WITHOUT_ROOT if want.without_root else way,
        )
    if seen.engine.startswith("down") and not (want.install and want.service):
        start = f"on the machine: systemctl enable --now {want.service}"
        storage = f"if its storage is the reason: {_WAYS_OUT[want.data]}"
        return Refusal(
            f"{want.engine} does not work on the machine of {agent}: {seen.engine[6:]}",
            _WITHOUT_ROOT if want.without_root else start if want.service else storage,
        )
    if seen.live_restore:
        return Refusal(
            f"{want.engine} on the machine of {agent} keeps containers running when its daemon stops, past their lease",
            'take "live-restore" out of /etc/docker/daemon.json there, and: systemctl reload docker',
        )
    if seen.identity == _FOREIGN:
        return Refusal(
            f"there is a container paddock-{agent} on the machine that Paddock has not made", "rename or remove it"
        )
    return None


def notes(want: ContainerWant, seen: ContainerSeen) -> Iterator[str]:
    """What is worth knowing about the engine."""
    if seen.driver == "vfs":
        way = _WAYS_OUT[want.data]
        yield (
            f"{want.engine} keeps every layer of an image as a whole copy (storage driver vfs), which takes time and"
            f" several times the room: {way}"
        )


def out_of_sight(seen: ContainerSeen) -> Iterator[str]:
    """What becomes of a container whose engine gets another volume."""
    if seen.ours:
        yield f"the container on the root disk stays behind{seen.lost}"


def starts(want: ContainerWant, seen: ContainerSeen) -> Step | None:
    """The step that starts an engine which does not run, where Paddock may: nothing else is known until then."""
    if not seen.engine.startswith("down") or want.service is None:
        return None
    reason = "it does not run, and what it has is seen only then"
    return Step("engine.start", f"start {want.engine}", reason, StartEngine(want.service))


def before_code(want: ContainerWant, seen: ContainerSeen) -> Iterator[Step]:
    """The image."""
    if want.image not in seen.images:
        title = "load the image from its archive" if want.archive else f"pull {want.image}"
        yield Step(f"image.{'load' if want.archive else 'pull'}", title, "it is not there", GetImage(want.image))


def after_code(agent: str, want: ContainerWant, seen: ContainerSeen, bundle_id: str) -> Iterator[Step]:
    """The container itself."""
    if seen.identity is None:
        action = CreateContainer(bundle_id, replaces=False)
        yield Step("container.create", f"create the container of {agent}", "there is none", action)
    elif why := _why_anew(want, seen):
        reason = f"{why}: another container, {agent}'s state stays{seen.lost}"
        title = f"make the container of {agent} anew"
        yield Step("container.recreate", title, reason, CreateContainer(bundle_id, replaces=True), Risk.RECREATES)


def _why_anew(want: ContainerWant, seen: ContainerSeen) -> str | None:
    if seen.identity != want.identity:
        old, new = _words(seen.identity or ""), _words(want.identity)
        parts = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return f"its {' and '.join(_PARTS.get(part, part) for part in parts)} changed"
    return "it was asked for" if want.recreate else None


def _words(identity: str) -> Mapping[str, str]:
    return dict(word.split("=", 1) for word in identity.split() if "=" in word)


def left_behind(agent: str, left: Mapping[str, Sequence[str]]) -> Iterator[Step]:
    """The end of containers in engines that the agent has left, with what was installed in each."""
    for engine, layer in left.items():
        title = f"remove the container of {agent} from {engine}"
        reason = f"{agent} is not to run there any more{_lost(layer)}"
        yield Step("container.remove", title, reason, RemoveContainer(engine), Risk.RECREATES)


def _lost(layer: Sequence[str]) -> str:
    """What goes with a container, for a sentence about its end."""
    return f"; lost with it: {', '.join(layer)}" if layer else "; nothing was installed in it"
