"""A script can be killed before any command, also in a subshell; the commands after a changed file are found."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from killed_script import commands, files_below, watch

SCRIPT = """\
echo 1 >"$1/first"
true
(
    true
    echo 2 >"$1/second"
    true
)
true
"""


def test_a_kill_leaves_other_files_only_after_a_command_that_changes_one(tmp_path: Path) -> None:
    argv = ["sh", "-c", SCRIPT, "test", str(tmp_path)]
    count, differing = commands(argv, b"", os.environ, lambda: files_below([str(tmp_path)]))
    assert (count, differing) == (6, [1, 2, 5])  # before all, after `echo 1`, and after `echo 2`


def test_a_script_is_killed_within_a_subshell(tmp_path: Path) -> None:
    argv = ["sh", "-c", SCRIPT, "test", str(tmp_path)]
    code, _ = watch(argv, b"", os.environ, lambda number: number == 4)
    assert code == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
