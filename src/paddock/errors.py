"""The one error root: what went wrong, what to do about it, and the exit code."""

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
    """Something a person can read and act upon; never shown as a traceback."""

    exit_code: Exit = Exit.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(PaddockError):
    """The file, a flag or an environment variable is wrong."""

    exit_code: Exit = Exit.BAD_INPUT


class Refused(PaddockError):
    """Doing this could lose state or touch something that is not ours."""

    exit_code: Exit = Exit.NEEDS_PERSON


class NeedsPerson(PaddockError):
    """Only a person can do what comes next; carries the commands."""

    exit_code: Exit = Exit.NEEDS_PERSON


class WorldChanged(PaddockError):
    """What was planned for is no longer what is there, or it is not known whether it is: look and plan again."""
