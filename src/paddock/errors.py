"""The base class of all errors shown to users: a message, a hint and an exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every verb."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    CHANGES_PENDING = 3
    NEEDS_PERSON = 4


class PaddockError(Exception):
    """An error with a message and a hint that a person can act on. It is never shown as a traceback."""

    exit_code: Exit = Exit.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(PaddockError):
    """The file, a flag or an environment variable is wrong."""

    exit_code: Exit = Exit.BAD_INPUT


class Refused(PaddockError):
    """Paddock did not carry out a plan, because it could lose state or change something Paddock does not own."""

    exit_code: Exit = Exit.NEEDS_PERSON


class NeedsPerson(PaddockError):
    """The next step has to be done by a person; the hint has the commands."""

    exit_code: Exit = Exit.NEEDS_PERSON


class WorldChanged(PaddockError):
    """The observation is stale or uncertain: observe and plan again."""
