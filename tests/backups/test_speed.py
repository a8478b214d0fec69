"""A backup over ssh takes at most twice the time of `tar | zstd`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from levels import slow_proof

CHECKOUT = Path(__file__).parents[2]


@slow_proof
def test_a_backup_takes_at_most_twice_the_time_of_tar_and_zstd(
    tmp_path: Path, show_table: Callable[[str], None]
) -> None:
    command = [sys.executable, "-m", "bench", "backup", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=900, check=False)
    if "Skipped" in done.stderr:
        pytest.skip("this machine cannot run an sshd")
    assert done.stdout, done.stderr
    show_table(done.stdout)
    figures = json.loads((tmp_path / "backup.json").read_text())
    assert figures["ratio"] <= 2
    added = figures["restic_added_percent"]
    assert added is None or added <= 5
    assert done.returncode == 0, done.stdout + done.stderr
