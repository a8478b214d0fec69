"""Each process of a backup and of a restore needs less than 150 MB of memory, whatever the size of the state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from levels import by_level
from onboard.streams import RECEIVE, order

LIMIT = 150 << 10  # KiB
MEBIBYTES = by_level(160, 300)  # of the large file: a process that has it in its memory is above the limit
# Runs a program, and then prints the most memory it has used.
MEASURED = """
import sys
exec(compile(sys.argv.pop(1), "program", "exec"))
with open("/proc/self/status") as status:
    print(*[line.split()[1] for line in status if line.startswith("VmHWM")], file=sys.stderr)
"""
SEND = """
import io, json, sys
from paddock.onboard.stream.send import Sender
Sender(json.loads(sys.argv[1]), io.FileIO(1, "w", closefd=False)).send()
"""
SAVE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from paddock.backups.folder import FolderDestination
from paddock.backups.verified import Verified
from paddock.cli import import_verbs
from paddock.onboard.stream.layout import matcher
import_verbs()
destination = FolderDestination(Path(sys.argv[1]), [])
destination.check()
with Verified(sys.stdin.buffer, matcher(["**/*.md"]), lambda count: None) as stream:
    destination.save(stream, datetime.now(UTC).replace(microsecond=0))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state with many small files, a large one, and one that is almost only a hole."""
    made = tmp_path / "home"
    for folder in range(by_level(4, 100)):
        (made / f"sessions/{folder:03}").mkdir(parents=True)
        for number in range(500):
            (made / f"sessions/{folder:03}/{number:06}.json").write_bytes(b"%d" % number * 100)
    block = os.urandom(1 << 20)
    with (made / "large").open("wb") as file:
        for _ in range(MEBIBYTES):
            file.write(block)
    with (made / "sparse").open("wb") as file:
        file.truncate(by_level(1, 20) << 29)
        file.seek(500 << 20)
        file.write(b"in the middle")
    return made


def used(program: str, *arguments: str, source: Path = Path(os.devnull), target: Path = Path(os.devnull)) -> int:
    """Run a program with files as its input and output, and return the KiB of memory it needed."""
    command = [sys.executable, "-c", MEASURED, program, *arguments]
    with source.open("rb") as stdin, target.open("wb") as stdout:
        done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.splitlines()[-1])


def test_every_process_needs_little_memory(home: Path, tmp_path: Path) -> None:
    stream = tmp_path / "stream.tar"
    sender = used(SEND, order(home), target=stream)
    destination = used(SAVE, str(tmp_path / "backups"), source=stream)
    words = {"folder": str(tmp_path / "back"), "owner": None, "limit": 1 << 40}
    receiver = used(RECEIVE, json.dumps(words), source=stream)
    assert max(sender, destination, receiver) < LIMIT, (sender, destination, receiver)
    assert (tmp_path / "back/sparse").stat().st_blocks * 512 < 8 << 20
    assert stream.stat().st_size < 2 * (MEBIBYTES << 20)
