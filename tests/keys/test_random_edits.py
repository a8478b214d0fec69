"""Random edits of a file over an agent that runs: each is carried out, or refused before anything stops.

An edit has one to three keys of the table tests/data/keys.yaml, of any shape. After `up`, a second `up` finds nothing
to do, and the world is the one that the file would make from nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from keys.living import EditedWorld, LivingSide, Running, given_files
from keys.shapes import PLACES, Shape, every_shape
from keys.table import Row, edited, rows, with_keys_beside
from keys.test_every_key import accepted
from levels import by_level
from paddock.base.errors import Exit, Refused
from paddock.core import deployment
from paddock.file.load import Loaded
from paddock.file.referenced import inlined
from paddock.places.proxmox.machine import plan as cattle
from paddock.plan.actions import ApplyBundle
from paddock.verbs import status

# What shows on the machine or in its configuration. The others show in what Paddock asks, prints or keeps.
_IN_THE_WORLD: Final = ("plan", "files", "secrets", "software")
# Keys that are about another agent or another place.
_ELSEWHERE: Final = ("project", "place", "enabled", "places.other")


def _with_root(shape: Shape) -> Shape:
    if not shape.has("proxmox"):
        return shape
    return Shape(
        shape.name, {**shape.file, "places": {"home": {"proxmox": {**PLACES["proxmox"]["proxmox"], **_PLACE}}}}
    )


# The node lets its shell do what only root can, and machines are created without a template, which is quicker.
_PLACE: Final = {"ssh": {"key": "id", "root": "root@pve"}, "template": "none"}
# Keys that show in no simulated machine that exists: keys of ssh, `pct exec`, the checksum of an archive that is there
# already, and files that are sent to new agents only.
_UNSEEN: Final = (
    *("places.home.proxmox.ssh.key", "places.home.proxmox.ssh.reach", "auth.from", "auth.overwrite"),
    *("places.home.proxmox.base.sha256", "places.home.proxmox.base.sha512"),
)
# The node does not have this bridge, which is found out when the machine was stopped for another change (see the test).
_WITHOUT_BRIDGE: Final = ("places.home.proxmox.bridge", "machine.net.bridge")
SHAPES: Final = {
    shape.name: _with_root(shape)
    for shape in every_shape()
    if not shape.has("process") and isinstance(accepted(shape.file), Loaded)
}
ROWS: Final = [
    row
    for row in rows()
    if not {row.key, *row.beside} & {*_ELSEWHERE, *_UNSEEN} and row.shows not in ("adoption", "chosen")
]


@dataclass(frozen=True)
class Edit:
    """Keys that a person changes at once. The run after it may be killed."""

    rows: Sequence[Row]
    kill: int | None = None  # after so many effects

    def __repr__(self) -> str:
        keys = ", ".join(f"{row.key}: {json.dumps(row.value)}" for row in self.rows)
        return keys + ("" if self.kill is None else f" (killed after {self.kill} effects)")


class Lab:
    """Makes worlds, and knows what a file makes from nothing."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self._given = given_files(folder / "given")
        self._numbers = itertools.count()
        for name, value in (("A_KEY", "first-secret"), ("ANOTHER_KEY", "second-secret")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PADDOCK_AGE_KEY", str(self._given / "own.key"))
        monkeypatch.setenv("PATH", f"{self._given}:/usr/bin:/bin")

    def begin(self, file: Any) -> EditedWorld:
        folder = self._folder / f"world{next(self._numbers)}"
        return EditedWorld.begin(folder, self._monkeypatch, self._given, file)

    def from_nothing(self, file: Any) -> EditedWorld | None:
        """Return a world in which this file was brought up; None if it lacks a lock or an approval of another verb."""
        world = self.begin(file)
        said = world.up()
        assert said is not None
        if said.code == Exit.BAD_INPUT or "`paddock approve`" in said.err:
            return None
        assert said.code == 0, f"a new agent does not come up: {said.err}"
        return world

    def walk(self, shape: str, edits: Sequence[Edit], *, working: bool = True) -> list[str]:
        """Make edits of a file, one after the other, and return what is wrong after one of them.

        Unless the edits are ``working``, the agent answers with its first configuration only.
        """
        file = with_keys_beside(SHAPES[shape].file, *edits[0].rows)
        if isinstance(accepted(file, self._given), str):
            return []  # these keys contradict each other
        world = self.from_nothing(file)
        if world is None:
            return []
        if not working and (first := world.running()):
            world.side.works = [first]
        for edit in edits:
            file = edited(with_keys_beside(world.file, *edit.rows), *edit.rows)
            if wrong := list(self._try(world, edit, file, working=working)):
                return [f"{shape}: {edit!r}: {each}" for each in wrong]
        return []

    def _try(self, world: EditedWorld, edit: Edit, file: Any, *, working: bool) -> Iterator[str]:
        """Bring an edited file up, and yield what is wrong then. A run that is killed is followed by another."""
        before, ran, memory, same = world.everything(), installed(world.running()), world.memory, file == world.file
        world.write(file)
        said = world.up(edit.kill)
        yield from world.crashes()
        killed = said is None
        if said is None:
            said = world.up()
            yield from world.crashes()
        assert said is not None
        if world.memory != memory:
            yield f"the memory {memory} became {world.memory}"
        if said.code == 0:
            yield from self._carried_out(world, file)
            if not same and any(row.shows in _IN_THE_WORLD for row in edit.rows) and world.everything() == before:
                yield from () if world.noted() else ["it is accepted, and nothing changes"]
        elif killed and not working and said.code == Exit.FAILED:
            yield from () if world.answers() else [f"after the kill it does not run as before: {said.sentence}"]
        elif killed:
            yield f"the run after the kill fails: {said.sentence}"
        elif said.code in (Exit.BAD_INPUT, Exit.NEEDS_PERSON):
            yield from () if " hint: " in said.err or said.code == Exit.BAD_INPUT else ["it is refused without a hint"]
            yield from (f"it is refused after this: {how}" for how in world.side.interrupted)
            yield from () if world.everything() == before else ["it is refused after something changed"]
        elif (running := installed(world.running())) != ran or not world.answers():
            changed = differences(ran, running)
            yield f"it fails, and the agent does not run as before: {changed}: {said.sentence}"

    def _carried_out(self, world: EditedWorld, file: Any) -> Iterator[str]:
        """Yield how a world differs from the one that the file makes from nothing."""
        again = world.up()
        if again is None or again.code or "nothing to do, and healthy" not in again.out:
            yield f"another `up` finds something to do: {again}"
        other = self.begin(file)
        other.side.works = world.side.works
        if (new := other.up()) is None or new.code:
            return  # the file describes a machine that exists, and could not make another one
        (node, running), (other_node, other_running) = world.facts(), other.facts()
        if running and other_running:  # packages that the file no longer asks for stay
            running = replace(running, packages=running.packages & other_running.packages)
        if running != other_running:
            yield f"the agent runs with something else: {differences(other_running, running)}"
        if node != other_node and not world.noted():
            yield f"the node has something else: {differences(other_node, node)}"


def installed(running: Running | None) -> Running | None:
    """Return what an agent runs with. When it goes back, its machine keeps its new packages and options."""
    return replace(running, packages=frozenset()) if running else None


def differences(wanted: Any, found: Any) -> list[str]:
    old, new = (pformat(each, width=200).split("\n") for each in (wanted, found))
    return [line for line in unified_diff(old, new, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]


EDITS: Final = {
    name: [row for row in ROWS if shape.has(row.only) and not row.sentence(shape)] for name, shape in SHAPES.items()
}


MOST: Final = {name: [row for row in found if row.key not in _WITHOUT_BRIDGE] for name, found in EDITS.items()}


@st.composite
def walks(draw: st.DrawFn, most: int = 3) -> tuple[str, list[Edit], bool]:
    """Edits of a file, one after the other, and whether the agent works with them."""
    shape = draw(st.sampled_from(sorted(SHAPES)))
    keys = st.lists(st.sampled_from(MOST[shape]), min_size=1, max_size=3, unique_by=lambda row: row.key)
    kills = st.none() | st.integers(0, 25)
    return shape, draw(st.lists(st.builds(Edit, keys, kills), min_size=1, max_size=most)), draw(st.booleans())


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        yield Lab(tmp_path_factory.mktemp("edits"), patch)


def edit(shape: str, *keys: str) -> Edit:
    """Return the edit of these keys."""
    return Edit([row for row in EDITS[shape] if row.key in keys])


# To make a failing walk shorter takes minutes, and one is short already.
# The default level takes the same walks each time, so that a change is judged by what it changes; --all finds others.
@settings(
    max_examples=by_level(8, 400),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=bool(by_level(1, 0)),
)
@given(walk=walks())
def test_an_edit_is_carried_out_or_refused_before_anything_stops_or_goes_back(
    lab: Lab, walk: tuple[str, list[Edit], bool]
) -> None:
    shape, edits, working = walk
    assert lab.walk(shape, edits, working=working) == []


WITH_CONTAINER: Final = ["hermes proxmox docker base", "hermes host user podman base"]
CHANGED: Final = [
    *((shape, "environment") for shape in ["service proxmox systemd", *WITH_CONTAINER]),
    *((shape, "container.shm_size") for shape in WITH_CONTAINER),
]


@pytest.mark.parametrize(("shape", "key"), CHANGED, ids=str)
def test_an_edit_that_does_not_work_goes_back_by_itself(lab: Lab, shape: str, key: str) -> None:
    assert lab.walk(shape, [edit(shape, key)], working=False) == []


@pytest.mark.xfail(strict=True, reason="no plan asks the node whether it has the bridge that the file names")
def test_a_bridge_that_the_node_does_not_have_is_refused_before_anything_stops(lab: Lab) -> None:
    shape = "service proxmox systemd"
    assert lab.walk(shape, [edit(shape, "places.home.proxmox.bridge", "mounts.0.read_only")]) == []


# The property can fail: defects that are planted, each with an edit that shows it.


def test_a_key_that_is_accepted_and_ignored_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = "service proxmox systemd"
    monkeypatch.setattr(
        deployment, "inlined", lambda spec, folder: inlined(spec.model_copy(update={"environment": {}}), folder)
    )
    [found] = lab.walk(shape, [edit(shape, "environment")])
    assert "it is accepted, and nothing changes" in found


def test_a_key_that_only_a_new_machine_gets_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = "service proxmox systemd"
    monkeypatch.setattr(cattle, "_same", lambda key, found, asked: True)
    told = "\n".join(lab.walk(shape, [edit(shape, "machine.cores")]))
    assert "the node has something else" in told


def test_a_refusal_after_the_agent_stopped_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, perform = "service proxmox systemd", LivingSide.perform

    def too_late(self: LivingSide, agent: Any, action: Any, *more: Any) -> None:
        perform(self, agent, action, *more)
        if isinstance(action, ApplyBundle) and agent.spec.environment:
            raise Refused("this cannot be done", hint="do something else")

    monkeypatch.setattr(LivingSide, "perform", too_late)
    told = "\n".join(lab.walk(shape, [edit(shape, "environment")]))
    assert "it is refused after this: ApplyBundle" in told


def test_a_status_that_crashes_after_a_kill_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, drift = "service proxmox systemd", status._drift

    def crashing(agent: Any, seen: Any) -> str:
        if drift(agent, seen) != "-":
            raise LookupError("nobody expects this")
        return "-"

    monkeypatch.setattr(status, "_drift", crashing)
    assert lab.walk(shape, [edit(shape, "environment")]) == []
    told = "\n".join(lab.walk(shape, [replace(edit(shape, "environment"), kill=1)]))
    assert "`status` crashes: error: unexpected" in told
