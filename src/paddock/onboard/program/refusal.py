"""Why a request was not carried out."""

from __future__ import annotations

FAILED = 1
MISSING = 69  # the machine lacks a program
BUSY = 75  # another run, or the agent itself, is in the way: it may work later
FORMER = 76  # the agent is here under a former id
UNSAVED = 77  # the state is one of another version, and was not saved
WRONG = 78  # a person has to change something
SET_ASIDE = 79  # the state was that of a copy, and is not whole yet


class Refusal(Exception):
    """A request that is not carried out, with a sentence for a person."""

    def __init__(self, said: str, code: int = WRONG) -> None:
        super().__init__(said)
        self.code = code
