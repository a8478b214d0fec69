"""Every verb is killed with SIGKILL at its steps: the same verb converges, and nothing is lost or left behind.

`tests/data/crash_matrix.yaml` lists which steps each scenario has, so that a step that no scenario has is found without
running all of them. PADDOCK_GOLDEN=write with level `all` writes it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

from cases import DATA, agrees, read_case
from faults import account_scenarios, archive_scenarios, node_scenarios
from faults.killing import AFTER, BEFORE
from faults.matrix import VERBS, Matrix, Pair, Scenario, Stage, not_covered, seed, steps_of_code
from faults.node_world import NodeWorld
from levels import LEVEL
from paddock.core.converge import up
from places.node import CATTLE

GOLDEN: Final = DATA / "crash_matrix.yaml"
SCENARIOS: Final = [*node_scenarios.SCENARIOS, *archive_scenarios.SCENARIOS, *account_scenarios.SCENARIOS]
SEED: Final = seed()
MOST: Final = None if LEVEL == "all" else 1  # kills of a scenario; None: at every point


def chosen() -> list[Scenario]:
    """Return all scenarios; below level `all`, one of each verb."""
    if LEVEL == "all":
        return SCENARIOS
    picked = random.Random(SEED)
    return [picked.choice([each for each in SCENARIOS if each.verb == verb]) for verb in VERBS]


def known_pairs() -> set[Pair]:
    """Return the pairs of all scenarios, as they are written down."""
    return {
        (name.partition(": ")[0], step, moment)
        for name, steps in read_case(GOLDEN).items()
        for step in steps
        for moment in (BEFORE, AFTER)
    }


def key_of(scenario: Scenario) -> str:
    return f"{scenario.verb}: {scenario.name}"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix()


def test_every_verb_has_a_scenario() -> None:
    assert {each.verb for each in SCENARIOS} == set(VERBS)
    assert sorted(map(key_of, SCENARIOS)) == sorted(read_case(GOLDEN))


def test_every_step_of_the_code_and_of_the_golden_plans_is_in_the_matrix() -> None:
    """A new step needs a scenario in tests/faults, or a reason in `matrix.ELSEWHERE`."""
    assert not_covered(known_pairs()) == []


def test_a_step_that_no_scenario_has_is_found() -> None:
    without = {pair for pair in known_pairs() if pair[1] != "pet.destroy"}
    [line, plan] = not_covered(without)
    assert line == f"pet.destroy ({steps_of_code()['pet.destroy']}): no scenario has it"
    assert plan == "forget: pet.destroy (a golden plan)"


@pytest.mark.parametrize("scenario", chosen(), ids=lambda each: key_of(each).replace(" ", "-"))
def test_a_killed_verb_converges_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: Matrix, scenario: Scenario
) -> None:
    print(f"PADDOCK_SEED={SEED}")
    stage = Stage(scenario, tmp_path, monkeypatch)
    outcomes = [stage.kill(at) for at in stage.chosen(MOST, SEED)]
    matrix.add(stage, outcomes)
    assert [str(each) for each in outcomes if each.lost or each.problems] == []
    steps = sorted({step for _, step, _ in stage.pairs})
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        write(scenario, steps)
    assert agrees(GOLDEN, read_case(GOLDEN), key_of(scenario), steps)


def write(scenario: Scenario, steps: list[str]) -> None:
    found = {**(read_case(GOLDEN) if GOLDEN.exists() else {}), key_of(scenario): steps}
    known = [key_of(each) for each in SCENARIOS]
    yaml = YAML(typ="safe", pure=True)
    yaml.width = 120
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump({name: found[name] for name in known if name in found}, GOLDEN)


def test_the_table_of_all_kills(matrix: Matrix, show_table: Callable[[str], None]) -> None:
    matrix.pairs |= known_pairs()
    show_table(f"the crash matrix (PADDOCK_SEED={SEED} repeats it)\n{matrix.table()}")
    assert not matrix.not_covered()
    if LEVEL == "all":
        assert matrix.tried == matrix.pairs


def test_a_lost_state_and_a_claim_that_is_left_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix can fail: here the run after the kill overwrites the memory, and leaves a claim."""

    def again(world: NodeWorld) -> None:
        up(world.agent())
        world.learn(CATTLE, text="something else\n")
        notes = world.node.config(CATTLE)["description"]
        world.node.put(CATTLE, description=f"{notes}\npaddock-claim: desk/00000001 until 2031-01-01T00:00:00+00:00")

    scenario = replace(
        node_scenarios.node_up("a mistake", node_scenarios.with_agent(), machine={"cores": 3}), again=again
    )
    stage = Stage(scenario, tmp_path, monkeypatch)
    outcome = stage.kill(0)
    assert "became" in outcome.lost[0]
    assert f"container {CATTLE} (bee) has a claim" in outcome.problems
