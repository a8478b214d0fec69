"""The crash matrix: which (verb, step, before or after its effect) exist, which were tried, and what came of it."""

from __future__ import annotations

import ast
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from cases import DATA, read_case
from faults.killing import AFTER, BEFORE, IN_STREAM, Point, in_fork, run_apart
from faults.looks import crashes
from paddock.base.errors import PaddockError

VERBS: Final = (
    *("up", "down", "cycle", "template build", "grow", "adopt", "import"),
    *("upgrade", "rollback", "backup", "restore", "drill", "forget"),
)
# Steps of other verbs, which the matrix is not about.
ELSEWHERE: Final[dict[str, str]] = {
    "backup.check": "it only reads",
    "backup.remove": "`backup prune`: tests/backups kills it at each file",
    "container.packages": "it only waits",
    "image.try": "a throwaway container, which the engine removes; nothing else changes",
    "lock": "`template lock` writes one file beside paddock.yaml, and nothing at a place",
    "schedule.try": "`schedule`: tests/live/test_schedule.py",
    "schedule.install": "`schedule`: tests/live/test_schedule.py",
    "schedule.remove": "`schedule`: tests/live/test_schedule.py",
}
if os.geteuid() != 0:
    ELSEWHERE["mounts.check"] = "directories of the node are given to the agent, which takes root"
# `up` does these, too.
_WITH_UP: Final = ("grow", "upgrade")
# What the golden plans call a verb.
_GOLDEN: Final = {
    "up": "up",
    "down": "down",
    "adopt": "adopt",
    "forget": "forget",
    "read": "restore",
    "clear_readers": "restore",
    "save": "backup",
}

Pair = tuple[str, str, str]  # verb, step, and BEFORE or AFTER


@cache
def steps_of_code() -> dict[str, str]:
    """Return each step that the code can begin, with the line that names it."""
    top, found = Path(str(resources.files("paddock"))), dict[str, str]()
    for path in sorted(top.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and _name(call.func) in ("Step", "step") and call.args:
                found |= dict.fromkeys(_texts(call.args[0], path), f"{path.relative_to(top)}:{call.lineno}")
    return found


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _texts(word: ast.expr, path: Path) -> list[str]:
    """Return the values that the first argument of a step can have."""
    match word:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Attribute(attr="id"):  # of a step of a plan
            return []
        case ast.Name(id="step_id"):
            return ["image.load", "image.pull"]
    raise AssertionError(f"{path.name}: {ast.unparse(word)} names a step, and the matrix does not know its values")


@cache
def pairs_of_plans() -> frozenset[tuple[str, str]]:
    """Return the (verb, step) pairs in the golden plans of the node."""
    found = set[tuple[str, str]]()
    for path in sorted((DATA / "plan/proxmox").glob("*.yaml")):
        case = read_case(path)
        for key, verb in _GOLDEN.items():
            plan = case.get(key)
            steps = plan.get("steps", ()) if isinstance(plan, dict) else ()
            found |= {(verb, step["id"] if isinstance(step, dict) else step.partition(":")[0]) for step in steps}
    return frozenset((verb, step) for verb, step in found if step in steps_of_code())


@dataclass(frozen=True)
class Scenario:
    """A verb in a world. The world is prepared once, and each kill gets a copy of it."""

    verb: str
    name: str
    world: Callable[[Path, Any], Any]
    prepare: Callable[[Any], object]
    run: Callable[[Any], object]
    is_done: Callable[[Any], bool]  # whether the next plan is empty
    kept: Callable[[Any], object]  # what must be the same at the end as without a kill
    is_safe: Callable[[Any], bool] = lambda world: True  # whether nothing is lost right after a kill
    again: Callable[[Any], object] | None = None  # what a person runs after the kill; the same verb by default
    varies: bool = False  # the end depends on when the run was killed; only `wrong` and `kept` are compared


@dataclass(frozen=True)
class Outcome:
    """What came of one kill."""

    verb: str
    scenario: str
    point: Point
    same: Sequence[Point] = ()  # the points at which a kill leaves the same, this one included
    problems: Sequence[str] = ()  # why it did not converge
    lost: Sequence[str] = ()  # what was lost

    def __str__(self) -> str:
        why = "; ".join((*self.lost, *self.problems))
        return f"{self.verb} ({self.scenario}), killed at {self.point}: {why}"


class Stage:
    """One scenario, ready to be killed any number of times."""

    def __init__(self, scenario: Scenario, folder: Path, monkeypatch: Any) -> None:
        self.scenario, self.folder = scenario, folder
        self.saved = folder.with_name(f"{folder.name}.saved")
        self.world = scenario.world(folder, monkeypatch)
        scenario.prepare(self.world)
        self.world.settle()
        self.world.pause()
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(folder, self.saved, symlinks=True)
        self.points: Sequence[Point]
        self.points, self.moments, self.reference = self._fresh(self._whole)

    def _fresh(self, work: Callable[[], Any]) -> Any:
        """Do something in a copy of the prepared world."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(self.saved, self.folder, symlinks=True, dirs_exist_ok=True)
        return in_fork(work)

    def _whole(self) -> tuple[Sequence[Point], list[int], tuple[Any, Any]]:
        """Run the verb to its end. Return its points, the first point of each moment, and the end."""
        self.world.refresh()
        moments, last = list[int](), None

        def look(number: int, point: Point) -> bool:
            nonlocal last
            # A program at the other end of a stream runs, which the facts do not show.
            before, last = last, (point.moment == IN_STREAM, self.world.facts())
            if last != before:
                moments.append(number)
            return False

        end = run_apart(self.world, lambda: self.scenario.run(self.world), look)
        assert end.ok, f"{self.scenario.verb} ({self.scenario.name}) fails without a kill: {end.error}"
        self.world.settle()
        assert not self.world.wrong(), self.world.wrong()
        assert self.scenario.is_done(self.world), f"{self.scenario.name}: the next plan is not empty"
        return end.points, moments, self._end()

    def _end(self) -> tuple[Any, Any]:
        return self.world.summary(), self.scenario.kept(self.world)

    @property
    def pairs(self) -> set[Pair]:
        return {(self.scenario.verb, point.step, point.moment) for point in self.points if point.is_edge}

    def chosen(self, most: int | None, seed: int) -> list[int]:
        """Return the points to kill at: one of each moment, or some that a seed chooses."""
        found = self.moments
        return found if most is None else sorted(random.Random(seed).sample(found, min(most, len(found))))

    def _same(self, at: int) -> Sequence[Point]:
        """Return the points of the moment that begins with this point."""
        following = [moment for moment in self.moments if moment > at]
        return self.points[at : following[0] if following else None]

    def kill(self, at: int) -> Outcome:
        """Kill the verb at a point, run it again, and compare the end with that of a run that was not killed."""
        found: Outcome = self._fresh(lambda: self._killed(at))
        return found

    def _killed(self, at: int) -> Outcome:
        scenario, world = self.scenario, self.world
        world.refresh()
        end = run_apart(world, lambda: scenario.run(world), lambda number, _: number == at)
        point = end.points[-1]
        problems, lost = list[str](), list[str]()
        if not end.killed:
            problems.append(f"it ended before point {at}: {end.error}")
        if not scenario.is_safe(world):
            lost.append("right after the kill, the memory is nowhere")
        problems += [problem for agent in world.agents() for problem in crashes(agent)]
        try:
            (scenario.again or scenario.run)(world)
        except PaddockError as error:
            problems.append(f"the next run fails: {error.message} ({error.hint})")
        with suppress(PaddockError):
            world.settle()
            problems += world.wrong()
            summary, kept = self._end()
            if kept != self.reference[1]:
                lost.append(f"{self.reference[1]} became {kept}")
            if summary != self.reference[0] and not scenario.varies:
                problems.append(f"{self.reference[0]} became {summary}")
            if not problems and not scenario.is_done(world):
                problems.append("the next plan is not empty")
        return Outcome(scenario.verb, scenario.name, point, self._same(at), problems, lost)

    def disturb(self, at: int, happen: Callable[[Any], object], harm: Callable[[Any], list[str]]) -> Outcome:
        """Let something happen at a point of the verb, which goes on, and return what harm it did."""
        found: Outcome = self._fresh(lambda: self._disturbed(at, happen, harm))
        return found

    def _disturbed(self, at: int, happen: Callable[[Any], object], harm: Callable[[Any], list[str]]) -> Outcome:
        scenario, world = self.scenario, self.world
        world.refresh()

        def meanwhile(number: int, _: Point) -> bool:
            if number == at:
                happen(world)
            return False

        run_apart(world, lambda: scenario.run(world), meanwhile)
        return Outcome(scenario.verb, scenario.name, self.points[at], lost=harm(world))


@dataclass
class Matrix:
    """All kills so far."""

    pairs: set[Pair] = field(default_factory=set)  # that scenarios have
    tried: set[Pair] = field(default_factory=set)
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, stage: Stage, outcomes: Iterable[Outcome]) -> None:
        self.pairs |= stage.pairs
        for outcome in outcomes:
            self.outcomes.append(outcome)
            self.tried |= {(outcome.verb, point.step, point.moment) for point in outcome.same if point.is_edge}

    @property
    def bad(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.problems or outcome.lost]

    def not_covered(self) -> list[str]:
        """Return the steps of the code that no scenario has, and the pairs of golden plans that none has."""
        return not_covered(self.pairs)

    def table(self) -> str:
        """Return a line for each verb, and the pairs that were not tried."""
        lines = [f"{'verb':16}{'pairs':>7}{'tried':>7}{'points':>8}{'kills':>7}{'converged':>11}{'lost':>6}"]
        for verb in [*VERBS, ""]:
            mine = [each for each in self.outcomes if verb in ("", each.verb)]
            pairs = {pair for pair in self.pairs if verb in ("", pair[0])}
            converged = sum(not each.problems for each in mine)
            lost = sum(bool(each.lost) for each in mine)
            tried, points = len(pairs & self.tried), sum(len(each.same) for each in mine)
            lines.append(f"{verb or 'all':16}{len(pairs):7}{tried:7}{points:8}{len(mine):7}{converged:11}{lost:6}")
        lines.append("one kill for all points between which nothing changes")
        missing = sorted(f"{verb}: {step} {moment}" for verb, step, moment in self.pairs - self.tried)
        if missing and len(missing) < 40:
            lines += ["not tried:", *(f"  {line}" for line in missing)]
        lines += ["not covered:", *(f"  {line}" for line in self.not_covered())] if self.not_covered() else []
        return "\n".join(lines)


def not_covered(pairs: Collection[Pair]) -> list[str]:
    """Return the steps and pairs that are in the code or in golden plans, and in none of these pairs."""
    steps = {step for _, step, _ in pairs}
    unknown = sorted(set(steps_of_code()) - steps - ELSEWHERE.keys())
    found = [f"{step} ({steps_of_code()[step]}): no scenario has it" for step in unknown]
    whole = {
        ("up" if verb in _WITH_UP else verb, step)
        for verb, step, moment in pairs
        if (verb, step, AFTER if moment == BEFORE else BEFORE) in pairs
    }
    return found + [f"{verb}: {step} (a golden plan)" for verb, step in sorted(pairs_of_plans() - whole)]


def seed() -> int:
    """Return the seed that chooses points; PADDOCK_SEED repeats a run. All workers of a run have the same one."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return int(os.environ.get("PADDOCK_SEED") or random.Random(run).randrange(1 << 32))
