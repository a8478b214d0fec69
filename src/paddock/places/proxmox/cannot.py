"""Refusing: the planner's way out when going on could lose something."""

from __future__ import annotations

from paddock.plan.step import Refusal


class CannotPlan(Exception):
    """A refusal that makes everything after it moot."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, hint)
