"""A plan as people and machines see it."""

from __future__ import annotations

from paddock.plan.actions import PlaceAction
from paddock.plan.step import Plan, Refusal, Risk, Step, as_data, as_text

PLAN = Plan(
    "hermes",
    steps=[
        Step("a", "create it", "it is missing", PlaceAction()),
        Step("b", "restart the other", "it changed", PlaceAction(), Risk.RESTARTS),
    ],
    notes=["the disk is larger than the file says"],
)


def test_text_is_like_a_diff() -> None:
    assert as_text(PLAN, {"a": 2.4, "b": 0.1}).splitlines() == [
        "hermes:",
        "  + create it          (it is missing, about 2 s)",
        "  ~ restart the other  (it changed)",
        "  . the disk is larger than the file says",
    ]


def test_refusals_stand_out_and_say_what_to_do() -> None:
    text = as_text(Plan("hermes", refusals=[Refusal("the volume would shrink", "write the larger size")]), {})
    assert text.splitlines() == ["hermes:", "  ! refused: the volume would shrink", "    write the larger size"]


def test_nothing_to_do() -> None:
    assert as_text(Plan("hermes"), {}) == "hermes: nothing to do"


def test_data_has_every_step() -> None:
    data = as_data(PLAN, {"a": 2.4})
    assert [(step["id"], step["risk"]) for step in data["steps"]] == [("a", "safe"), ("b", "restarts")]
    assert data["notes"] == ["the disk is larger than the file says"]
