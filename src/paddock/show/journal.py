"""The journal: one JSON line per event of a run. Paddock never resumes a run from it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, Self

from paddock.base import clock, folders
from paddock.base.computer import state_folder
from paddock.base.errors import PaddockError, is_full, warn_not_written
from paddock.base.frozen import frozen
from paddock.base.secret import mask
from paddock.base.text import visible

_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}-[a-z-]+\.jsonl")
_MOST: Final = 500
_ALWAYS_KEPT: Final = 20  # `plan` reads these to estimate how long steps take
_KEPT_FOR: Final = timedelta(days=90)


def folder() -> Path:
    """Return the folder of the journals, which has one file per run."""
    return state_folder() / "runs"


class Journal:
    """Writes each event of a run immediately, so that the journal of a killed run is complete."""

    def __init__(self, verb: str, files: Sequence[Path] = ()) -> None:
        now = clock.now()
        self.path = folder() / f"{now:%Y%m%dT%H%M%S.%f}-{verb}.jsonl"
        self._file: IO[bytes] | None = None
        try:
            folders.make_private(self.path.parent)
            prune(self.path.parent, now)
            # Unbuffered, so that a failed write is not repeated when the file is closed.
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            if not is_full(error):
                raise PaddockError(
                    f"the journal cannot be written: {error}", hint="set XDG_STATE_HOME to choose another folder"
                ) from None
            warn_not_written("the journal", error)
        self._writing = threading.Lock()  # runs of several agents write in parallel
        self.write("run", verb=verb, pid=os.getpid(), files=[str(path.absolute()) for path in files])

    def write(self, event: str, **fields: Any) -> None:
        record = {"at": round(clock.now().timestamp(), 3), "event": event, **fields}
        line = (visible(mask(json.dumps(record, ensure_ascii=False))) + "\n").encode(errors="replace")
        with self._writing:
            if self._file is None:
                return
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError as error:
                # The run continues, because nothing depends on the journal.
                self.close()
                warn_not_written("the journal", error)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def prune(kept: Path, now: datetime) -> None:
    """Remove old and surplus journals before a new one. Always keep the newest few, and leave other files alone."""
    names = sorted((path.name for path in kept.iterdir() if _NAME.fullmatch(path.name)), reverse=True)
    oldest = f"{now - _KEPT_FOR:%Y%m%dT%H%M%S}"
    for at, name in enumerate(names):
        if at >= _MOST - 1 or (at >= _ALWAYS_KEPT and name < oldest):
            with contextlib.suppress(OSError):
                (kept / name).unlink()


@frozen
class PastStep:
    """A step of a past run that succeeded."""

    agent: str
    id: str
    seconds: float
    begins: float = 0.0  # seconds after the start of the run
    title: str = ""


@frozen
class PastRun:
    """A past run, read from its journal."""

    verb: str
    started: datetime
    outcome: str  # done, failed, or cut off
    steps: tuple[PastStep, ...]
    files: tuple[str, ...] = ()  # absolute paths; older journals have none

    @classmethod
    def from_file(cls, path: Path) -> Self | None:
        """Read a run from its journal. Return None if the first line is incomplete."""
        events = list(_events(path))
        if not events or events[0].get("event") != "run":
            return None
        start = events[0]["at"]
        titles: dict[tuple[str, str], str] = {}
        steps: list[PastStep] = []
        for e in events:
            if e["event"] == "begin":
                titles[e["agent"], e["id"]] = str(e.get("title", ""))
            elif e["event"] == "done":
                title = titles.get((e["agent"], e["id"]), "")
                steps.append(PastStep(e["agent"], e["id"], e["seconds"], e["at"] - start - e["seconds"], title))
        ends = [e["outcome"] for e in events if e["event"] == "end"]
        started = datetime.fromtimestamp(start, UTC)
        files = tuple(events[0].get("files", ()))
        return cls(events[0]["verb"], started, ends[-1] if ends else "cut off", tuple(steps), files)

    @property
    def seconds(self) -> float:
        """The time from the start of the run to the end of its last step."""
        return max((step.begins + step.seconds for step in self.steps), default=0.0)


def past_runs(limit: int, files: Sequence[Path] = ()) -> list[PastRun]:
    """Return the newest runs that changed something, oldest first; with ``files``, only runs of all these files."""
    named = {str(path.absolute()) for path in files}
    runs: list[PastRun] = []
    for path in sorted(folder().glob("*.jsonl"), reverse=True):
        run = PastRun.from_file(path)
        if run and run.steps and named <= {*run.files}:
            runs.append(run)
        if len(runs) == limit:
            break
    return runs[::-1]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            yield json.loads(line)
        except ValueError:
            return  # the run was killed while it wrote this line


def usual_seconds(runs: Iterable[PastRun]) -> dict[str, float]:
    """Return the median duration of each kind of step."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for step in run.steps:
            found.setdefault(step.id, []).append(step.seconds)
    return {step_id: median(seconds) for step_id, seconds in found.items()}
