"""The story of a run, told on stderr: what is done, how long it took, and where it was when it failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from paddock.run.journal import Journal
from paddock.secret import mask

if TYPE_CHECKING:
    from rich.console import Console


class Story:
    """Narrates, times and journals; animated on a terminal, plain lines elsewhere."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._console = _console() if sys.stderr.isatty() else None
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """Tell something that is not a step."""
        self._print(f"  {text}", "dim")

    @contextmanager
    def step(self, agent: str, step_id: str, title: str) -> Iterator[None]:
        """Do one step: told when it begins, timed when it ends, and named when it fails."""
        start = time.monotonic()
        self._write("begin", agent=agent, id=step_id, title=title)
        if self._console is None:
            self._print(f"  … {title}")
        try:
            with self._spinner(title):
                yield
        except BaseException as error:
            self._write("failed", agent=agent, id=step_id, error=str(error) or type(error).__name__)
            self._print(f"  ✗ {title}", "red")
            raise
        seconds = time.monotonic() - start
        self._write("done", agent=agent, id=step_id, seconds=round(seconds, 3))
        self._print(f"  ✓ {title}  {seconds:.1f} s", "green")

    @contextmanager
    def run(self) -> Iterator[None]:
        """A whole run, so that the journal knows how it ended."""
        try:
            yield
        except BaseException:
            self._write("end", outcome="failed")
            raise
        self._write("end", outcome="done", seconds=round(time.monotonic() - self._start, 3))

    def _spinner(self, title: str) -> AbstractContextManager[object]:
        return self._console.status(title) if self._console else nullcontext()

    def _write(self, event: str, **fields: object) -> None:
        if self._journal:
            self._journal.write(event, **fields)

    def _print(self, text: str, style: str = "") -> None:
        if self._console:
            self._console.print(mask(text), style=style, markup=False, highlight=False)
        else:
            print(mask(text), file=sys.stderr, flush=True)


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)
