from __future__ import annotations

import pytest

from paddock import process
from paddock.process import CommandFailed, DeadlinePassed, ProgramMissing


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ProgramMissing, match="no-such-program is not installed"):
        process.run(["no-such-program"])


def test_a_deadline_is_kept() -> None:
    with pytest.raises(DeadlinePassed, match="did not end within"):
        process.run(["sleep", "5"], deadline=0.1)


def test_a_failure_shows_the_end_of_what_was_said() -> None:
    result = process.run(["sh", "-c", "seq 30 >&2; exit 3"])
    error = CommandFailed("counting", result)
    assert error.message.startswith("counting failed with code 3:\n19\n")


def test_stdin_reaches_the_program() -> None:
    assert process.run(["cat"], stdin=b"hello").out == "hello"
