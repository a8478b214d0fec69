"""Configuring an agent whose state was that of a copy: it is made whole first, in no further connection."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from paddock.core.resolve import Located
from paddock.core.streams import SET_ASIDE, unless_set_aside

PROGRAM = ["sh", "-c", 'echo "$1: $(cat)"', "program", "two words"]


def _ran(state: Path) -> subprocess.CompletedProcess[bytes]:
    agent = cast(Located, SimpleNamespace(paths=SimpleNamespace(state=str(state))))
    # More than fits into a pipe: the program that does not run does not read it.
    return subprocess.run(unless_set_aside(agent, PROGRAM), input=b"x" * 200_000, capture_output=True, check=False)


def test_the_program_runs_with_its_arguments_and_input_when_nothing_is_set_aside(tmp_path: Path) -> None:
    done = _ran(tmp_path)
    assert (done.returncode, done.stdout[:20], len(done.stdout)) == (0, b"two words: xxxxxxxxx", 200_012)


def test_the_program_does_not_run_while_something_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / ".paddock/set-aside").mkdir(parents=True)
    done = _ran(tmp_path)
    assert (done.returncode, done.stdout) == (SET_ASIDE, b"")
