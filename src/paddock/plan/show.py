"""Render a plan as text, like a diff, or as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.plan.step import Plan, Risk
from paddock.visible import one_line

_SIGNS: Final = {Risk.SAFE: "+", Risk.RESTARTS: "~", Risk.RECREATES: "-", Risk.PERSON: "?"}


def as_text(plan: Plan, usual: Mapping[str, float]) -> str:
    """Return the plan as text: for each step a sign, its title, its reason and its usual duration."""
    if plan.empty:
        lines = [f"{plan.agent}: nothing to do"]
    else:
        lines = [f"{plan.agent}:"]
        width = max((len(step.title) for step in plan.steps), default=0)
        for step in plan.steps:
            takes = f", about {usual[step.id]:.0f} s" if usual.get(step.id, 0) >= 0.5 else ""
            lines.append(one_line(f"  {_SIGNS[step.risk]} {step.title:<{width}}  ({step.reason}{takes})"))
            lines += [f"      {command}" for command in step.commands]
        for refusal in plan.refusals:
            lines.append(_deeper(f"  ! refused: {refusal.reason}"))
            if refusal.hint:
                lines += [f"    {line}" for line in refusal.hint.split("\n")]
    return "\n".join([*lines, *(one_line(f"  . {note}") for note in plan.notes)])


def _deeper(text: str) -> str:
    """Indent further lines more than the first, so that none looks like a step or a note."""
    return text.replace("\n", "\n        ")


def as_data(plan: Plan, usual: Mapping[str, float]) -> dict[str, Any]:
    """Return the plan as data for JSON."""
    return {
        "agent": plan.agent,
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "reason": step.reason,
                "risk": step.risk.value,
                "usual_seconds": usual.get(step.id),
                "commands": list(step.commands),
            }
            for step in plan.steps
        ],
        "refusals": [{"reason": refusal.reason, "hint": refusal.hint} for refusal in plan.refusals],
        "notes": list(plan.notes),
    }
