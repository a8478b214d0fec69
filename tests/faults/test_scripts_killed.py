"""A request that was killed anywhere can be made again: it ends as if nothing had happened, and the state is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from faults import scripts
from faults.matrix import seed
from hostile.ground import Machine, as_root, machine
from levels import by_level

pytestmark = as_root

SEED = seed()
TRIES = by_level(4, 0) or None  # None: before every call at which that makes a difference
CASES = list(scripts.cases())
CHOSEN = CASES if TRIES is None else scripts.sample(CASES, by_level(6, 0), SEED)


@pytest.fixture(scope="module")
def world() -> Iterator[Machine]:
    with machine() as made:
        yield made


def test_every_request_that_changes_something_is_killed() -> None:
    assert scripts.not_covered() == []


def test_killed_requests_converge_and_lose_nothing(world: Machine, show_table: Callable[[str], None]) -> None:
    found = [scripts.on(world, case, TRIES, SEED) for case in CHOSEN]
    lines = [f"{'request':44}{'calls':>7}{'differing':>10}{'tried':>7}{'not converged':>15}{'lost':>6}"]
    for k in found:
        lines.append(f"{k.name:44}{k.calls:7}{k.differing:10}{k.tried:7}{len(k.problems):15}{len(k.lost):6}")
    whole = (sum(getattr(k, name) for k in found) for name in ("calls", "differing", "tried"))
    lines.append("{:44}{:7}{:10}{:7}".format("all", *whole))
    lines.append("calls: system calls that can change something")
    lines.append("differing: before these calls a file has changed, so that a kill leaves something else")
    show_table("\n".join([f"requests to root on a machine, killed at a system call (PADDOCK_SEED={SEED})", *lines]))
    assert [why for kills in found for why in (*kills.lost, *kills.problems)] == []


# None of them is done if its first run was killed at one moment.
MISTAKES = {
    "it takes what has begun for done": "[ -e /srv/begun ] || { echo 1 >/srv/begun; echo 2 >/srv/done; }",
    "it takes an empty file for a complete one": "[ -e /srv/key ] || echo 1 >/srv/key",
    "it removes first what says what else to remove": "[ ! -e /srv/list ] || rm /srv/list /srv/listed",
}


@pytest.mark.parametrize("text", MISTAKES.values(), ids=list(MISTAKES))
def test_a_request_that_the_next_run_does_not_finish_is_found(world: Machine, text: str) -> None:
    """The matrix can fail, also between two system calls of one program."""
    before = scripts.shell("echo 1 >/srv/list; echo 1 >/srv/listed")
    case = scripts.Case("a script with a mistake", scripts.shell(text), [before])
    assert scripts.on(world, case, None, SEED).problems


def test_a_kill_that_loses_a_file_is_found(world: Machine) -> None:
    text = "sed s/1/2/ /srv/kept >/srv/new; rm /srv/kept; mv /srv/new /srv/kept"
    before = scripts.shell("echo 1 >/srv/kept")
    case = scripts.Case("a script with a mistake", scripts.shell(text), [before], kept=["/srv/kept"])
    assert scripts.on(world, case, None, SEED).lost
