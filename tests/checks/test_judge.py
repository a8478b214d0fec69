"""What facts say of an agent, as data: one thing is broken, and the lines that fail are the ones about it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cases import DATA, agrees, golden, read_case
from paddock.checks import asked, judge
from paddock.checks.line import Line, Outcome, as_text, by_topic
from paddock.checks.subject import Subject
from paddock.recipes.hermes.recipe import Hermes
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Paths
from paddock.runtimes.isolation import Isolation

STATE = "/var/lib/paddock/hermes"
PATHS = Paths("/opt/paddock/.store", "/etc/paddock/hermes/current", STATE, f"{STATE}/home", STATE)
AGENT: dict[str, Any] = {
    "kind": "hermes",
    "version": "0.19.0",
    "place": "home",
    "settings": {
        "model": {"provider": "custom:standin", "default": "stand-in"},
        "providers": {"standin": {"base_url": "http://192.0.2.9:4000/v1", "key_env": "STANDIN_KEY"}},
    },
}
_SETS = ("confined", "exposed", "ports", "health_port")
WELL: dict[str, Any] = json.loads((DATA / "checks.json").read_text())


def subject(agent: dict[str, Any], **other: Any) -> Subject:
    spec = HermesSpec.model_validate({**AGENT, **agent})
    recipe = Hermes()
    of_all = asked.of_every_agent("hermes", PATHS, recipe.probes(spec, "Say ok.", "c1"))
    wanted: dict[str, Any] = {
        "agent": "hermes",
        "paths": PATHS,
        "processes": ["gateway"],
        "bundle_id": "0123456789ab",
        "files": {"hermes/config.yaml": "aa", "lease": "bb"},
        "tree": "/opt/paddock/.store/895a09f82a81",
        "asked": [*of_all, *recipe.checks(spec, "hermes", PATHS)],
        "confined": frozenset(Isolation),
        "mounted": True,
        "own_machine": True,
        "ports": frozenset({8642}),
        **other,
    }
    return Subject(**wanted)


def facts(broken: dict[str, Any], wanted: Subject, *, quick: bool) -> dict[str, Any]:
    """What the machine would print, in the form it has there."""
    found = deepcopy(_merged(WELL, broken))
    plain = {name: found.pop(name) for name in ("processes", "now", "uid", "dropped")}
    if "answers" in found["inside"]:
        answers = [found["inside"]["answers"][check.name] for check in wanted.questions(quick=quick)]
        found["inside"]["answers"] = [{"found": answer, "seconds": 0.1} for answer in answers]
    wrapped = {
        name: fact if isinstance(fact, dict) and "refused" in fact and name != "inside" else {"found": fact}
        for name, fact in found.items()
    }
    return {**plain, **{name: {**fact, "seconds": 0.1} for name, fact in wrapped.items()}}


def _merged(tree: Any, over: Any) -> Any:
    """The tree with some values replaced; ABSENT takes a key away, ONLY keeps nothing else."""
    if not isinstance(tree, dict) or not isinstance(over, dict):
        return over
    if over.get("ONLY"):
        return {key: value for key, value in over.items() if key != "ONLY"}
    merged = {key: _merged(tree.get(key), value) for key, value in over.items() if value != "ABSENT"}
    return {**{key: value for key, value in tree.items() if key not in over}, **merged}


@pytest.mark.parametrize("path", golden("checks"))
def test_what_fails(path: Path) -> None:
    case = read_case(path)
    wanted = subject(case.get("agent", {}), **_plain(case.get("subject", {})))
    lines = judge.lines(wanted, facts(case["facts"], wanted, quick=False), quick=False)
    failed = {line.check: _told(line) for line in lines if line.failed}
    unavailable = {line.check: line.evidence for line in lines if line.outcome is Outcome.UNAVAILABLE}
    assert all(line.hint for line in lines if line.failed)
    assert agrees(path, case, "fails", failed), failed
    assert agrees(path, case, "unavailable", unavailable), unavailable


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    sets: dict[str, Any] = {name: frozenset(given[name]) for name in _SETS if name in given}
    return {**given, **sets}


def _told(line: Line) -> str:
    return f"{line.evidence}\n→ {line.hint}"


def test_a_quick_look_asks_little() -> None:
    wanted = subject({})
    lines = judge.lines(wanted, facts({}, wanted, quick=True), quick=True)
    assert [line.check for line in by_topic(lines)] == [
        "state.mounted",
        "state.private",
        "state.writable",
        "lease",
        "ports",
        "process.gateway",
        "health",
    ]


def test_every_line_has_a_case_in_which_it_fails() -> None:
    wanted = subject({})
    known = {line.check for line in judge.lines(wanted, facts({}, wanted, quick=False), quick=False)}
    broken = {check for path in (DATA / "checks").glob("*.yaml") for check in read_case(path)["fails"]}
    assert known <= broken


def test_as_people_read_it() -> None:
    lines = [
        Line.of("lease", True, "held once", "never shown", 0.01),
        Line.of("model.offered", False, "x is not offered\nthere is: y", "write y", 1.26),
        Line("isolation.apparmor", Outcome.UNAVAILABLE, "no kernel for it"),
    ]
    assert as_text(lines) == (
        "  ✓ lease               held once\n"
        "  ✗ model.offered       x is not offered  (1.3 s)\n"
        "                        there is: y\n"
        "                        → write y\n"
        "  · isolation.apparmor  no kernel for it"
    )
