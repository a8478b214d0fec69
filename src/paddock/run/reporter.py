"""Print the progress of a run on stderr, with durations and the failed step, and write the journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from paddock.run.journal import Journal
from paddock.secret import mask, unmasked
from paddock.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


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
        """Write the outcome of the run to the journal when the context ends."""
        try:
            yield
        except BaseException:
            self.write("end", outcome="failed")
            raise
        self.write("end", outcome="done", seconds=round(time.monotonic() - self._start, 3))

    def spinner(self, title: str) -> AbstractContextManager[object]:
        """Show a spinner while a step runs. Without a terminal, in parallel runs and within a step, print a line."""
        if self._console and not self._parallel and not self._spinning:
            return self._spin(self._console, title)
        self.print(f"… {title}")
        return nullcontext()

    @contextmanager
    def _spin(self, console: Console, title: str) -> Iterator[None]:
        self._spinning = True
        try:
            with _spinning(console, title):
                yield
        finally:
            self._spinning = False

    def write(self, event: str, **fields: object) -> None:
        if self._journal:
            self._journal.write(event, **fields)

    def print(self, text: str, style: str = "") -> None:
        if self._console:
            self._console.print(_plain(_indented(text)), style=style, highlight=False, soft_wrap=True)
        else:
            print(visible(mask(_indented(text))), file=sys.stderr, flush=True)


class AgentReporter:
    """Reports the progress of one agent."""

    def __init__(self, reporter: Reporter, agent: str, prefix: str) -> None:
        self._reporter = reporter
        self._agent = agent
        self._prefix = prefix

    def say(self, text: str) -> None:
        """Print a line that is not a step."""
        self._reporter.print(f"{self._prefix}{text}", "dim")

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
            with self._reporter.spinner(told):
                yield
        except BaseException as error:
            self.journal("failed", id=step_id, error=str(error) or type(error).__name__)
            self._reporter.print(f"✗ {told}", "red")
            raise
        seconds = time.monotonic() - start
        self.journal("done", id=step_id, seconds=round(seconds, 3))
        self._reporter.print(f"✓ {told}  {seconds:.1f} s", "green")


def _indented(text: str) -> str:
    """Indent the text, and further lines more than the first, so that none looks like a step."""
    return "  " + text.replace("\n", "\n      ")


def _plain(text: str) -> Text:
    """Return the text for rich, without interpreting markup, emoji codes or control characters in it."""
    from rich.text import Text

    return Text(visible(mask(text)))


def _spinning(console: Console, title: str) -> AbstractContextManager[object]:
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", _plain(title), style="green")
    # rich must not redirect stdout and stderr: the text would bypass the mask.
    return Live(
        spinner, console=console, refresh_per_second=12.5, transient=True, redirect_stdout=False, redirect_stderr=False
    )


def _console() -> Console:
    from rich.console import Console

    # Only Paddock's own colours reach this console: all text goes through _plain first.
    return Console(file=unmasked(sys.stderr))
