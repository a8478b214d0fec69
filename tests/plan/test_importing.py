"""The plan of an import is the plan of `up`, with the steps that take the state from where it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock.plan.actions import ApplyBundle, ReceiveState, StartEngine
from paddock.plan.importing import OriginSeen, planned
from paddock.plan.step import Phase, Plan, Refusal, Risk, Step

UP = Plan(
    "bee",
    [
        Step("code.install", "install", "-", StartEngine("x"), phase=Phase.SOFTWARE),
        Step("state.receive", "unpack", "-", ReceiveState("x"), phase=Phase.STATE),
        Step("agent.configure", "configure", "-", ApplyBundle("b"), phase=Phase.AGENT),
    ],
    notes=["a note"],
)
ORIGIN = OriginSeen("container 118", "/opt/bee", 12, 3 << 20, "root")


def test_the_install_is_stopped_right_before_it_is_read() -> None:
    plan = planned(UP, replace(ORIGIN, running=["bee.service"], resting=["bee.timer"]), None)
    assert [step.id for step in plan.steps] == [
        "code.install",
        "state.check",
        "source.retire",
        "state.receive",
        "agent.configure",
    ]
    retire = plan.steps[2]
    assert retire.risk is Risk.RESTARTS
    assert retire.title == (
        "stop bee.service, keep bee.service, bee.timer from starting, and mark /opt/bee on container 118 as imported"
    )


def test_an_install_that_nothing_runs_is_only_marked() -> None:
    retire = planned(UP, ORIGIN, None).steps[2]
    assert (retire.title, retire.risk) == ("mark /opt/bee on container 118 as imported", Risk.SAFE)


@pytest.mark.parametrize(
    ("origin", "used", "code"),
    [
        (ORIGIN, "it has files", "import.state-exists"),
        (replace(ORIGIN, imported_by="home_wasp at here"), None, "import.second"),
        (replace(ORIGIN, others=["process 7 (vi)"]), None, "import.in-use"),
    ],
)
def test_a_refused_import_has_no_steps(origin: OriginSeen, used: str | None, code: str) -> None:
    plan = planned(UP, origin, used)
    assert [refusal.code for refusal in plan.refusals] == [code]
    assert not plan.steps


def test_refusals_of_up_and_of_the_import_are_shown_together() -> None:
    plan = planned(replace(UP, steps=(), refusals=[Refusal("no", code="x")]), ORIGIN, "it has files")
    assert [refusal.code for refusal in plan.refusals] == ["x", "import.state-exists"]


def test_the_first_part_of_a_plan_stops_nothing() -> None:
    partial = replace(UP, steps=UP.steps[:1], partial=True)
    plan = planned(partial, replace(ORIGIN, running=["bee.service"]), None)
    assert [step.id for step in plan.steps] == ["code.install"]
    assert plan.partial


def test_the_plan_names_variables_that_the_agent_would_lack() -> None:
    notes = planned(UP, replace(ORIGIN, variables=["TOKEN"], environment_file=".env", account="me"), None).notes
    assert notes[0] == "a note"
    assert "12 files, 3.0 MiB, owner root" in notes[1]
    assert "its .env sets TOKEN, and the file gives bee no such variable" in notes[2]
    assert "only processes and units of the account me could be seen" in notes[3]
