"""Kill a shell script at its commands, and find the commands at which a kill leaves other files.

A kill leaves the files as they are at that moment. Most commands change no file, so that a kill before the next one
leaves what the kill before it left. One run with a look at the files before every command tells which kills differ.

Machines run this module, too: it needs only the standard library.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

# Put before a script: kills it with SIGKILL before command number $KILL_AT, and writes the number of commands.
# A subshell counts on its own.
KILLED = """\
set -o functrace
count=0
trap 'echo "$count" >"$COUNT_FILE"' EXIT
trap 'count=$((count + 1)); [ "$count" != "$KILL_AT" ] || kill -9 $$ $BASHPID' DEBUG
"""
# Put before a script: asks before every command, and waits for an answer.
_WATCHED = """\
set -o functrace
trap 'echo >"$WATCH/asked"; read -r _ <"$WATCH/answered"' DEBUG
"""


def watch(
    argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], is_last: Callable[[int], bool]
) -> tuple[int, str]:
    """Run a script, and kill it before the first command for whose number ``is_last`` is true.

    Commands of subshells count, too. All programs of the script are killed: a subshell that waits for an answer would
    keep the lock of the agent. Returns the exit code and the end of the output.
    """
    number = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(stdin)
        given.seek(0)
        asked, answered = (_open_pipe(f"{folder}/{name}") for name in ("asked", "answered"))
        try:
            at = list(argv).index("-c") + 1
            process = subprocess.Popen(
                [*argv[: at - 2], "bash", "--posix", "-c", _WATCHED + argv[at], *argv[at + 1 :]],
                stdin=given,
                stdout=said,
                stderr=said,
                env={**environment, "WATCH": folder},
                process_group=0,
            )
            while process.poll() is None:
                if not select.select([asked], [], [], 0.02)[0]:
                    continue
                for _ in os.read(asked, 4096):
                    number += 1
                    if is_last(number):
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                        break
                    os.write(answered, b"\n")
        finally:
            os.close(asked)
            os.close(answered)
        said.seek(0)
        return process.returncode, said.read().decode(errors="replace")[-300:]


def commands(
    argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], look: Callable[[], object]
) -> tuple[int, list[int]]:
    """Run a script to its end. Return how many commands it has, and before which of them a kill leaves other files.

    ``look`` returns the files; it is called before every command. A kill before command 1 leaves them as they were.
    """
    seen: list[object] = []

    def go_on(_: int) -> bool:
        seen.append(look())
        return False

    code, said = watch(argv, stdin, environment, go_on)
    assert code == 0, said
    return len(seen), [at + 1 for at, files in enumerate(seen) if at == 0 or files != seen[at - 1]]


def _open_pipe(path: str) -> int:
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)  # so that neither the script nor this process waits for the other to open it


def files_below(tops: Iterable[str]) -> dict[str, str]:
    """Return every file and folder at or below these paths, with owner, mode and content."""
    found: dict[str, str] = {}
    for top in filter(os.path.lexists, tops):
        found[top] = _described(Path(top))
        for where, folders, leaves in os.walk(top):
            for path in (Path(where, name) for name in (*folders, *leaves) if not name.endswith(".pyc")):
                found[str(path)] = _described(path)
    return found


def _described(path: Path) -> str:
    facts, content = path.lstat(), ""
    if stat.S_ISLNK(facts.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(facts.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"{facts.st_mode:o} {facts.st_uid}:{facts.st_gid} {content}".rstrip()
