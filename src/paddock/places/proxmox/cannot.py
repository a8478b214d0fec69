"""The exception by which the planner stops with a refusal."""

from __future__ import annotations

from paddock.plan.step import Refusal


class CannotPlan(Exception):
    """A refusal that ends the planning: the plan holds this refusal and no steps."""

    def __init__(self, reason: str, hint: str | None = None, *, code: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, hint, code=code)
