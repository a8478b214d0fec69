"""Adding a place takes one module: a place in memory goes through the verbs, and nothing in core/ knows it."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import paddock
from core.memory_place import MemoryPlace
from paddock.base.errors import Refused
from paddock.channels import Guest
from paddock.core import converge
from paddock.core.deployment import Deployment, Incoming
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.file.referenced import inlined
from paddock.kinds import KINDS, load
from paddock.places.contract import AnyPlace
from paddock.plan.actions import AgentAction, ApplyBundle, AwaitAnswer, RemoveFormerState
from paddock.show.reporter import Reporter
from paddock.verbs.status import Status
from paper import PaperSide

FILE = """\
project: home
places: {somewhere: {host: {}}}
agents: {bee: {kind: service, place: somewhere, command: [/bin/true]}}
"""


class Killed(BaseException):
    """The end of a process, without any cleanup."""


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


class Runs:
    """Runs of Paddock, each with a new process's view of the same place and machines."""

    def __init__(self, folder: Path, place: MemoryPlace) -> None:
        (folder / "paddock.yaml").write_text(FILE)
        self._loaded = load(folder / "paddock.yaml")
        self.place = place
        self.side = PaperSide({})

    def agent(self) -> Deployment:
        return Deployment(
            project="home",
            name="bee",
            spec=inlined(self._loaded.spec.agents["bee"], self._loaded.folder),
            folder=self._loaded.folder,
            place=cast("AnyPlace", self.place),
            recipe=KINDS["service"],
            reporter=Reporter().of("bee"),
            machine_side=self.side,
        )

    def destroy_inside(self) -> None:
        if "bee" not in self.place.machines:
            self.side.inside.clear()


@pytest.fixture
def runs(tmp_path: Path, place: MemoryPlace) -> Runs:
    return Runs(tmp_path, place)


def test_up_creates_the_machine_and_configures_the_agent(runs: Runs) -> None:
    assert [step.id for step in converge.plan(runs.agent()).steps] == [
        *("state.create", "machine.create", "machine.start", "agent.configure", "agent.answer")
    ]
    assert converge.up(runs.agent()) == "bee: up and working"
    assert runs.place.machines == {"bee": True}
    assert runs.side.inside["machine-of-bee"].active
    assert Status.of(runs.agent()).status == "running"


def test_a_state_that_is_received_is_verified_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[AgentAction] = []
    perform = runs.side.perform

    def noted(agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        done.append(action)
        perform(agent, action, seen, reach)

    monkeypatch.setattr(runs.side, "perform", noted)
    incoming = Incoming("a backup", 0, lambda: nullcontext(io.BytesIO()))
    assert converge.up(replace(runs.agent(), incoming=incoming)) == "bee: up and working"
    assert [type(action) for action in done][-3:] == [ApplyBundle, AwaitAnswer, RemoveFormerState]
    assert len([action for action in done if isinstance(action, AwaitAnswer)]) == 1


def test_a_second_up_does_nothing(runs: Runs) -> None:
    converge.up(runs.agent())
    assert converge.plan(runs.agent()).empty
    assert converge.up(runs.agent()) == "bee: nothing to do, and healthy"


def test_down_destroys_the_machine_and_keeps_the_state(runs: Runs) -> None:
    converge.up(runs.agent())
    assert converge.down(runs.agent()).startswith("bee: down; its state is kept")
    assert runs.place.machines == {}
    assert "bee" in runs.place.states


def test_forget_is_refused_while_the_machine_exists_and_deletes_the_state_afterwards(runs: Runs) -> None:
    converge.up(runs.agent())
    seen, plan = converge.plan_forget(runs.agent())
    with pytest.raises(Refused):
        converge.forget(runs.agent(), plan, seen)
    converge.down(runs.agent())
    runs.destroy_inside()
    seen, plan = converge.plan_forget(runs.agent())
    assert converge.forget(runs.agent(), plan, seen) == "bee: forgotten"
    assert runs.place.states == {}


@pytest.mark.parametrize("verb", [converge.up, converge.cycle, converge.down])
def test_a_run_killed_at_any_change_is_continued_by_the_next(tmp_path: Path, verb: object) -> None:
    for at in itertools.count(1):
        runs = Runs(tmp_path, MemoryPlace())
        if verb is not converge.up:
            converge.up(runs.agent())
        left = itertools.count(at, -1)

        def interrupt(left: itertools.count[int] = left) -> None:
            if next(left) == 1:
                raise Killed

        runs.place.interrupt = interrupt
        try:
            verb(runs.agent())  # type: ignore[operator]
        except Killed:
            runs.place.interrupt = lambda: None
            runs.destroy_inside()
            verb(runs.agent())  # type: ignore[operator]
            expected = {} if verb is converge.down else {"bee": True}
            assert runs.place.machines == expected, f"killed at change {at}"
            assert "bee" in runs.place.states, f"the state was lost by a kill at change {at}"
        else:
            assert at > 2, "no change was interrupted"
            return


def test_the_place_is_small_and_nothing_knows_it() -> None:
    source = Path(__file__).with_name("memory_place.py").read_text()
    assert len(source.splitlines()) < 150
    for path in Path(paddock.__file__).parent.rglob("*.py"):
        assert not re.search(r"isinstance\([^)]*Place\b|MemoryPlace", path.read_text()), path
