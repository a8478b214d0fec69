"""Golden cases of checks: each breaks some facts and lists the checks that fail or are unavailable."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cases import DATA, agrees, golden, read_case
from paddock.file.models.network import Endpoint
from paddock.kinds.checks import Connect
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.workload import Paths
from paddock.runtimes.contract import Isolation
from paddock.verify import confinement, egress, judge, look, state
from paddock.verify.line import Line, Outcome, Subject, as_text, by_topic

STATE = "/var/lib/paddock/hermes"
PATHS = Paths("/opt/paddock/.store", "/etc/paddock/hermes/current", STATE, f"{STATE}/home", STATE)
AGENT: dict[str, Any] = {
    "kind": "hermes",
    "version": "0.19.0",
    "place": "home",
    "network": {"egress": "internet"},
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
    of_all = look.of_every_agent("hermes", PATHS, recipe.probes(spec, "Say ok.", "c1"))
    limits = egress.checks("hermes", spec.network, [Endpoint("192.0.2.9", 4000)], ["192.0.2.10", "pve.example.com"])
    wanted: dict[str, Any] = {
        "agent": "hermes",
        "paths": PATHS,
        "processes": ["gateway"],
        "bundle_id": "0123456789ab",
        "files": {"hermes/config.yaml": "aa", "lease": "bb"},
        "tree": "/opt/paddock/.store/895a09f82a81",
        "asked": [
            *of_all,
            *recipe.checks(spec, "hermes", PATHS),
            *confinement.checks(spec.container.sockets),
            *state.checks(spec),
            *limits,
        ],
        "limited": spec.network.closed,
        "confined": frozenset(Isolation),
        "mounted": True,
        "own_machine": True,
        "account": "hermes",
        "ports": frozenset({8642}),
        **other,
    }
    return Subject(**wanted)


def facts(broken: dict[str, Any], wanted: Subject, *, quick: bool) -> dict[str, Any]:
    """Return the facts as the program on the machine prints them, with some of them broken."""
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
    """Return the tree with some values replaced. ABSENT removes a key; ONLY drops all other keys."""
    if not isinstance(tree, dict) or not isinstance(over, dict):
        return over
    if over.get("ONLY"):
        return {key: value for key, value in over.items() if key != "ONLY"}
    merged = {key: _merged(tree.get(key), value) for key, value in over.items() if value != "ABSENT"}
    return {**{key: value for key, value in tree.items() if key not in over}, **merged}


def lines_of(case: dict[str, Any]) -> list[Line]:
    wanted = subject(case.get("agent", {}), **_plain(case.get("subject", {})))
    return judge.lines(wanted, facts(case["facts"], wanted, quick=False), quick=False)


@pytest.mark.parametrize("path", golden("checks"))
def test_each_broken_fact_fails_its_own_checks(path: Path) -> None:
    case = read_case(path)
    lines = lines_of(case)
    assert all(line.hint for line in lines if line.failed)
    assert agrees(path, case, "fails", [line.check for line in lines if line.failed])
    assert agrees(path, case, "unavailable", [line.check for line in lines if line.outcome is Outcome.UNAVAILABLE])


def test_evidence_and_hints_read_as_in_the_snapshot() -> None:
    snapshot = DATA / "check_wording.yaml"
    cases = {path.stem: lines_of(read_case(path)) for path in sorted((DATA / "checks").glob("*.yaml"))}
    broken = {case: [line for line in lines if line.outcome is not Outcome.OK] for case, lines in cases.items()}
    shown = {**broken, "all-is-well": cases["all-is-well"]}
    found = {case: {line.check: _wording(line) for line in lines} for case, lines in shown.items() if lines}
    assert agrees(snapshot, read_case(snapshot), "wording", found)


def _wording(line: Line) -> str:
    return f"{line.evidence}\n→ {line.hint}" if line.hint else line.evidence


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    sets: dict[str, Any] = {name: frozenset(given[name]) for name in _SETS if name in given}
    return {**given, **sets}


def test_a_quick_verification_has_the_cheap_checks_only() -> None:
    wanted = subject({})
    lines = judge.lines(wanted, facts({}, wanted, quick=True), quick=True)
    assert [line.check for line in by_topic(lines)] == [
        "state.mounted",
        "state.private",
        "state.writable",
        "lease",
        "ports",
        "isolation.outside",
        "process.gateway",
        "health",
        "egress.closed",
    ]


@pytest.mark.parametrize(
    ("listed", "reaches", "tried"),
    [
        # Without endpoints, the first name server is tried.
        ("internet", [], [()]),
        (["models.example"], [], [()]),
        (["10.0.0.5:4000", "10.1.0.0/16:80"], [], [(("10.0.0.5", 4000),)]),
        (["10.0.0.5"], [Endpoint("192.0.2.9", 4000)], [(("192.0.2.9", 4000),)]),
        # An agent that reaches only addresses does not reach the name server.
        (["10.1.0.0/16"], [], []),
        ([], [], []),
    ],
)
def test_an_endpoint_that_has_to_be_open_is_tried(listed: Any, reaches: list[Endpoint], tried: list[Any]) -> None:
    network = HermesSpec.model_validate({**AGENT, "network": {"egress": listed}}).network
    found = [check.question for check in egress.checks("a", network, reaches, []) if check.name == "egress.open"]
    assert [tuple(question.endpoints) for question in found if isinstance(question, Connect)] == tried


def test_every_check_fails_in_some_golden_case() -> None:
    wanted = subject({})
    known = {line.check for line in judge.lines(wanted, facts({}, wanted, quick=False), quick=False)}
    broken = {check for path in (DATA / "checks").glob("*.yaml") for check in read_case(path)["fails"]}
    assert known <= broken


def test_lines_are_shown_with_sign_evidence_duration_and_hint() -> None:
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
