"""Print the progress of a run on stderr, with durations and the failed step, and write the journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.run.journal import Journal
from paddock.run.progress import Progress
from paddock.secret import mask, unmasked
from paddock.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

_REFRESH: Final = 0.2  # seconds between two numbers on a terminal
_RARELY: Final = 30.0  # and in a log


class Reporter:
    """Prints progress, measures time and writes the journal. On a terminal it shows a spinner."""

    def __init__(self, journal: Journal | None = None, *, parallel: bool = False) -> None:
        self._journal = journal
        self._parallel = parallel
        self._console = _console() if sys.stderr.isatty() else None
        self._spinning = False
        self._start = time.monotonic()

    def of(self, agent: str) -> AgentReporter:
        """Return the reporter for one agent."""
        return AgentReporter(self, agent, f"{agent}: " if self._parallel else "")

    def say(self, text: str) -> None:
        """Print a line that is not about an agent."""
        self.print(text, "dim")

    @contextmanager
    def run(self) -> Iterator[None]:
        """Write the outcome of the run to the journal when the context ends, and close it."""
        try:
            yield
        except BaseException:
            self.write("end", outcome="failed")
            raise
        else:
            self.write("end", outcome="done", seconds=round(time.monotonic() - self._start, 3))
        finally:
            if self._journal:
                self._journal.close()

    @contextmanager
    def showing(self, title: str) -> Iterator[_Shown]:
        """Show a spinner while a step runs. Without a terminal, in parallel runs and within a step, print lines."""
        if self._console and not self._parallel and not self._spinning:
            spinner, live = _spinning(self._console, title)
            self._spinning = True
            try:
                with live:
                    yield _Shown(lambda more: spinner.update(text=_plain(f"{title}: {more}")), _REFRESH)
            finally:
                self._spinning = False
        else:
            self.print(f"… {title}")
            yield _Shown(lambda more: self.print(f"… {title}: {more}"), _RARELY)

    def write(self, event: str, **fields: object) -> None:
        if self._journal:
            self._journal.write(event, **fields)

    def print(self, text: str, style: str = "") -> None:
        if self._console:
            self._console.print(_plain(_indented(text)), style=style, highlight=False, soft_wrap=True)
        else:
            print(visible(mask(_indented(text))), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _Shown:
    """The line about the step that runs."""

    show: Callable[[str], object]  # adds a text to it
    every: float  # seconds between two texts


class AgentReporter:
    """Reports the progress of one agent."""

    def __init__(self, reporter: Reporter, agent: str, prefix: str) -> None:
        self._reporter = reporter
        self._agent = agent
        self._prefix = prefix
        self._shown: _Shown | None = None  # the step that runs

    def say(self, text: str) -> None:
        """Print a line that is not a step."""
        self._reporter.print(f"{self._prefix}{text}", "dim")

    def warn(self, text: str) -> None:
        """Print a line that a person has to read. On a terminal no text of an agent can look like it."""
        self._reporter.print(f"{self._prefix}{text}", "bold yellow")

    def journal(self, event: str, **fields: object) -> None:
        """Write an event to the journal without printing it."""
        self._reporter.write(event, agent=self._agent, **fields)

    @contextmanager
    def step(self, step_id: str, title: str) -> Iterator[None]:
        """Report one step: print its title, its duration when it ends, or its failure."""
        start = time.monotonic()
        self.journal("begin", id=step_id, title=title)
        told = f"{self._prefix}{title}"
        try:
            with self._reporter.showing(told) as self._shown:
                yield
        except BaseException as error:
            self.journal("failed", id=step_id, error=str(error) or type(error).__name__)
            self._reporter.print(f"✗ {told}", "red")
            raise
        seconds = time.monotonic() - start
        self.journal("done", id=step_id, seconds=round(seconds, 3))
        self._reporter.print(f"✓ {told}  {seconds:.1f} s", "green")

    def progress(self, total: Callable[[], int | None]) -> Progress:
        """Return a function that gets numbers of bytes and shows their sum beside the step that runs.

        The total may become known later. Until then only the sum is shown.
        """
        shown = self._shown
        return Progress(shown.show, shown.every, total) if shown else Progress(self.say, _RARELY, total)


def _indented(text: str) -> str:
    """Indent the text, and further lines more than the first, so that none looks like a step."""
    return "  " + text.replace("\n", "\n      ")


def _plain(text: str) -> Text:
    """Return the text for rich, without interpreting markup, emoji codes or control characters in it."""
    from rich.text import Text

    return Text(visible(mask(text)))


def _spinning(console: Console, title: str) -> tuple[Spinner, Live]:
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", _plain(title), style="green")
    # rich must not redirect stdout and stderr: the text would bypass the mask.
    return spinner, Live(
        spinner, console=console, refresh_per_second=12.5, transient=True, redirect_stdout=False, redirect_stderr=False
    )


def _console() -> Console:
    from rich.console import Console

    # Only Paddock's own colours reach this console: all text goes through _plain first.
    return Console(file=unmasked(sys.stderr))
