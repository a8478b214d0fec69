"""A backup over ssh takes at most twice the time of `tar | zstd`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from levels import slow_proof

BENCH = Path(__file__).parents[2] / "bench/backup.py"


@slow_proof
def test_a_backup_takes_at_most_twice_the_time_of_tar_and_zstd() -> None:
    command = [sys.executable, str(BENCH), "--mebibytes", "1024", "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if "Skipped" in done.stderr:
        pytest.skip("this machine cannot run an sshd")
    assert done.stdout, done.stderr
    print(done.stdout)
    assert json.loads(done.stdout)["ratio"] <= 2
