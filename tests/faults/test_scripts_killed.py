"""A script that was killed at any command can run again: it ends as if nothing had happened, and the state is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from faults import scripts
from faults.matrix import seed
from hostile.ground import Machine, as_root, machine
from levels import by_level

pytestmark = as_root

SEED = seed()
TRIES = by_level(1, 0) or None  # None: at every command at which that makes a difference
CASES = list(scripts.cases())
CHOSEN = CASES if TRIES is None else scripts.sample(CASES, by_level(6, 0), SEED)


@pytest.fixture(scope="module")
def world() -> Iterator[Machine]:
    with machine() as made:
        yield made


def test_every_script_that_changes_something_is_killed() -> None:
    assert scripts.not_covered() == []


def test_killed_scripts_converge_and_lose_nothing(world: Machine, show_table: Callable[[str], None]) -> None:
    found = [scripts.on(world, case, TRIES, SEED) for case in CHOSEN]
    lines = [f"{'script':40}{'commands':>9}{'differing':>10}{'tried':>7}{'not converged':>15}{'lost':>6}"]
    for k in found:
        lines.append(f"{k.name:40}{k.commands:9}{k.differing:10}{k.tried:7}{len(k.problems):15}{len(k.lost):6}")
    whole = (sum(getattr(k, name) for k in found) for name in ("commands", "differing", "tried"))
    lines.append("{:40}{:9}{:10}{:7}".format("all", *whole))
    lines.append("differing: before these commands a file has changed, so that a kill leaves something else")
    show_table("\n".join([f"scripts of root on a machine, killed at a command (PADDOCK_SEED={SEED})", *lines]))
    assert [why for kills in found for why in (*kills.lost, *kills.problems)] == []


def test_a_script_that_is_not_finished_by_the_next_run_is_found(world: Machine) -> None:
    """The matrix can fail: this script is done only if its last command was reached in its first run."""
    text = "[ -e /srv/begun ] || { echo 1 >/srv/begun; echo 2 >/srv/done; }; echo 3 >/srv/last"
    case = scripts.Case("a script with a mistake", (["sh", "-c", text], b""))
    assert scripts.on(world, case, None, SEED).problems
