"""Two laptops bring one agent up, down and around at the same time: one pet, one machine, one writer."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from levels import by_level
from paddock.base.errors import Refused
from paddock.channels import Unreachable
from paddock.core.converge import cycle, down, up
from paddock.places.proxmox.node.notes import Role
from places.laptops import Race, make_race
from places.node import Node, PaperAgent

VERBS: tuple[Callable[[PaperAgent], str], ...] = (up, down, cycle)


def run_race(race: Race, seed: int, *, deadly: bool) -> None:
    """Run one to three verbs on each laptop; with ``deadly`` one run of each laptop is killed."""
    chosen = random.Random(seed)
    template = chosen.choice(["none", "none", "auto"])

    def work() -> None:
        race.me.dies_after = chosen.randint(1, 12) if deadly else 0
        for verb in [chosen.choice((up, up, *VERBS)), *(chosen.choice(VERBS) for _ in range(chosen.randint(0, 2)))]:
            race.attempt(verb, template)
        race.me.dies_after = 0

    race.run({"one": work, "two": work})
    expect_losers_told(race)
    race.pass_time(timedelta(hours=1))  # the claims of killed runs expire
    race.run({"two": lambda: race.attempt(up, template)})
    if isinstance(race.laptops[1].ends[-1][1], Unreachable):
        # Only the laptop that created a machine can prove its host key, and that run was killed: `cycle` is the way.
        race.run({"two": lambda: race.attempt(cycle, template)})
    expect_one_of_each(race)


def expect_losers_told(race: Race) -> None:
    """Expect that every run that failed names the run that won."""
    one, two = race.laptops
    for laptop, other in ((one, two), (two, one)):
        for verb, error in laptop.ends:
            if error is None:
                continue
            assert isinstance(error, Refused), f"{verb}: {error}\n{race}"
            # A number that is taken since the observation may be a machine, whose maker is not visible yet.
            named = [*other.runs, "is taken by something that the token may not see"]
            assert any(name in error.message for name in named), f"{verb}: {error}\n{race}"


def expect_one_of_each(race: Race) -> None:
    assert race.laptops[1].ends[-1][1] is None, f"{race.laptops[1].ends[-1]}\n{race}"
    [machine] = race.containers(Role.CATTLE)
    [pet] = race.containers(Role.PET)
    assert machine.vmid in race.node.running
    assert pet.vmid not in race.node.running
    assert machine.mount("mp0") is not None
    assert not machine.unsettled
    assert not pet.unsettled
    assert pet.flag("protection")


@pytest.mark.parametrize("seed", range(by_level(15, 300)))
def test_two_laptops_have_one_pet_and_one_machine(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    race = make_race(node, seed, monkeypatch, tmp_path)
    run_race(race, seed, deadly=False)
    assert not any("paddock-claim" in str(node.config(vmid).get("description")) for vmid in node.vmids)


@pytest.mark.parametrize("seed", range(by_level(15, 300)))
def test_two_laptops_whose_runs_are_killed_have_one_pet_and_one_machine(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    run_race(make_race(node, seed, monkeypatch, tmp_path), seed, deadly=True)
