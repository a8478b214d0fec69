"""Measure one deployment: requests to the node, ssh commands, memory of the tool, and the time of the first answer.

The same counters are used for all ways, and none of them asks the tool.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pvebox.standins.stage import ANSWERED

_COUNTED: Final = ("ssh", "scp", "sftp", "ssh-keyscan")
_PROMPT: Final = re.compile(r"say ok\b", re.IGNORECASE)  # all ways ask this; the agent asks its model other things too
_SAMPLE_SECONDS: Final = 0.1
FIRST_ANSWER: Final = "first answer"
REST: Final = "rest of the checks"


@dataclass(frozen=True)
class Measured:
    """One deployment, from the first request until the tool ended."""

    way: str
    answered: float  # seconds until the model answered the first prompt
    whole: float  # seconds until the tool ended
    phases: Mapping[str, float]  # in order; their sum is the whole
    requests: int
    ssh: int  # commands
    memory: int = 0  # bytes at most, of the tool with its children

    @property
    def until_answer(self) -> dict[str, float]:
        """The phases up to the first answer."""
        return {name: seconds for name, seconds in self.phases.items() if name != REST}

    def as_data(self) -> dict[str, Any]:
        return {
            "answered": round(self.answered, 3),
            "whole": round(self.whole, 3),
            "phases": {name: round(seconds, 3) for name, seconds in self.phases.items()},
            "requests": self.requests,
            "ssh": self.ssh,
            "memory": self.memory,
        }


class Meter:
    """Counts what happens on a stage."""

    def __init__(self, folder: Path) -> None:
        self._requests = folder / "sandbox/access.log"
        self._answers = folder / ANSWERED
        self._ssh = folder / "ssh.log"
        self._wrappers = folder / "counted"
        _write_wrappers(self._wrappers, self._ssh)

    @property
    def path(self) -> str:
        """A PATH with wrappers that count each ssh command."""
        return f"{self._wrappers}:{os.environ['PATH']}"

    def start(self, way: str) -> Measurement:
        """Begin to measure."""
        return Measurement(way, self._requests, self._answers, self._ssh)


@dataclass
class Measurement:
    """A deployment that is being measured."""

    way: str
    requests: Path
    answers: Path
    ssh: Path
    began: float = field(default_factory=time.time)
    _marks: list[tuple[str, float]] = field(default_factory=list)
    _memory: int = 0

    def __post_init__(self) -> None:
        self._before = {path: _size(path) for path in (self.requests, self.answers, self.ssh)}

    def done(self, phase: str, at: float | None = None) -> None:
        """Note that a phase has ended, now or at a time."""
        self._marks.append((phase, time.time() if at is None else at))

    @contextmanager
    def memory_of(self, process: subprocess.Popen[Any]) -> Iterator[None]:
        """Sample the memory of a process and its children while the block is open."""
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(_SAMPLE_SECONDS):
                self._memory = max(self._memory, sum(map(_memory, tree_of(process.pid))))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            yield
        finally:
            ended.set()
            sampler.join()

    def end(self) -> Measured:
        """Return the figures. It is an error if no prompt was answered."""
        ended = self._marks[-1][1]
        times = [each["at"] for each in map(json.loads, self._new(self.answers)) if _PROMPT.match(each["prompt"])]
        if not times:
            raise SystemExit(f"{self.way}: the model was not asked the prompt")
        return Measured(
            self.way,
            answered=times[0] - self.began,
            whole=ended - self.began,
            phases=phases(self.began, self._marks, times[0]),
            requests=len(self._new(self.requests)),
            ssh=len(self._new(self.ssh)),
            memory=self._memory,
        )

    def _new(self, log: Path) -> list[str]:
        if not log.exists():
            return []
        with log.open("rb") as file:
            file.seek(self._before[log])
            return file.read().decode().splitlines()


def phases(began: float, marks: Sequence[tuple[str, float]], answered: float) -> dict[str, float]:
    """Return the seconds of each phase. The one in which the first prompt was answered is split at that moment."""
    found: dict[str, float] = {}
    start = began
    for name, end in marks:
        if start < answered <= end:
            found[FIRST_ANSWER] = answered - start
            if end > answered:
                found[REST] = end - answered
        elif answered <= start:
            found[REST] = found.get(REST, 0.0) + end - start
        else:
            found[name] = found.get(name, 0.0) + end - start
        start = end
    return found


def tree_of(pid: int) -> Iterator[int]:
    """Yield a process and all processes that descend from it."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield from tree_of(int(child))


def _memory(pid: int) -> int:
    """Return the bytes of a process; of pages that it shares with others, its part (PSS)."""
    with suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else 0
    return 0


def _write_wrappers(folder: Path, log: Path) -> None:
    folder.mkdir()
    for name in _COUNTED:
        program = shutil.which(name)
        if program:
            (folder / name).write_text(f'#!/bin/sh\necho {name} >>{log}\nexec {program} "$@"\n')
            (folder / name).chmod(0o755)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
