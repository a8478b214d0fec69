"""The wording of plans for a Proxmox node: one snapshot per verb, made from a few rich golden cases."""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path

import pytest

from cases import DATA, read_case
from paddock.places.proxmox import place
from paddock.plan.step import MachinePlan, Plan, as_text
from places.test_planner import Inputs, inputs, plans

CASES = {
    "up": (
        *("nothing-everything-said", "state-grows-and-pending", "data-added-later", "root-mounts-new-machine"),
        *("storage-changed", "pet-lost-its-mark", "pet-unprotected", "machine-number-taken"),
        *("former-id", "former-id-too", "former-ids-several", "former-id-several-pets", "namesake"),
        *("pet-of-another-project", "future-mark", "future-mark-of-a-pet"),
        *("disk-grows", "fixed-address-without-gateway", "fixed-address-of-another-network"),
    ),
    "down": ("root-mounts-done", "data-all-is-well", "machine-lost-its-mark", "machine-has-snapshots", "former-id"),
    "forget": ("data-forget", "data-forget-shared-pet", "forget-cut-off-before", "forget-while-mounted"),
    "cycle": ("template-refreshed", "template-changed", "root-mounts-done", "machine-is-protected"),
    "adopt": ("adopt-machine", "adopt-own-volume", "adopt-several-volumes", "adopt-own-volume-unasked"),
    "template": ("template-missing", "crash-while-building"),
    "save": ("archive-save", "archive-save-left-out", "archive-save-several-agents"),
    "read": ("archive-read", "archive-read-after-a-kill", "archive-read-no-room"),
}


@pytest.mark.parametrize("verb", CASES)
def test_the_wording_of_the_plans_is_as_reviewed(verb: str) -> None:
    snapshot = DATA / "wording" / f"proxmox-{verb}.txt"
    found = "\n".join(f"# {name}\n{_text(verb, DATA / 'plan/proxmox' / f'{name}.yaml')}\n" for name in CASES[verb])
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(found)
    assert found.splitlines() == snapshot.read_text().splitlines()


def test_every_refusal_has_a_code_of_its_own() -> None:
    calls = [
        node
        for module in sorted(Path(place.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("CannotPlan", "Refusal")
    ]
    codes = [ast.unparse(word.value) for call in calls for word in call.keywords if word.arg == "code"]
    assert len(calls) == len(codes) > 50
    assert [code for code, count in Counter(codes).items() if count > 1] == []


def _text(verb: str, path: Path) -> str:
    case = read_case(path)
    given = inputs(path, case)
    plan = plans(given, case)[verb] if verb in ("save", "read") else _plan(verb, given)
    return as_text(Plan("hermes", [*plan.steps, *plan.then], plan.refusals, plan.notes), {})


def _plan(verb: str, given: Inputs) -> MachinePlan:
    planner, want, seen = given.planner, given.want, given.seen
    match verb:
        case "adopt":
            return planner.adopt(want, given.target, seen)
        case "template":
            return planner.build_template(want, seen, rebuild=True)
        case "cycle":
            return planner.cycle(want, seen)
        case _:
            plan: MachinePlan = getattr(planner, verb)(want, seen)
            return plan
