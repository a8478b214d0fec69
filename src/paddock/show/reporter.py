"""Report the progress of a run on stderr, with durations and the failed step, and write the journal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from paddock.base import clock
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import mask
from paddock.base.text import one_line, visible
from paddock.show.frame import Board, Row, State, record
from paddock.show.journal import Journal, past_runs, usual_seconds
from paddock.show.screen import Screen, draws

if TYPE_CHECKING:
    from paddock.plan.step import Step


_SOON: Final = 2.0  # seconds before which the speed is not known
_RECENT: Final = 50  # how many times of showing it the speed is measured over


class Progress:
    """Counts bytes and shows them now and then."""

    def __init__(self, show: Callable[[str], object], every: float, total: Callable[[], int | None]) -> None:
        self._show = show
        self._every = every  # seconds
        self._total = total  # of the bytes; a machine may have named it, so it may be wrong
        self._done = 0
        self._recent = deque([(clock.monotonic(), 0)], maxlen=_RECENT)  # when so many bytes had passed

    def __call__(self, count: int) -> None:
        """Count more bytes."""
        self._done += count
        now = clock.monotonic()
        if now - self._recent[-1][0] >= self._every:
            self._recent.append((now, self._done))
            before, done = self._recent[0]
            self._show(in_words(self._done, self._total(), self._done - done, now - before))


def in_words(done: int, total: int | None, recently: int, seconds: float) -> str:
    """Return how many bytes have passed, and how long the rest takes at the speed of the last seconds."""
    if not total or total < done:
        return in_units(done)
    known = f"{in_units(done)} of {in_units(total)}"
    if seconds < _SOON or not recently:
        return known
    left = int((total - done) * seconds / recently)
    hours, minutes = divmod(left // 60, 60)
    shown = f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"
    return f"{known}, {shown} left"


def in_units(count: float) -> str:
    """Return a number of bytes in words, such as `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


_REFRESH: Final = 0.2  # seconds between two numbers on a terminal
_RARELY: Final = 30.0  # and in a log
_LEARNED_FROM: Final = 20  # past runs


class Reporter:
    """Prints progress, measures time and writes the journal. On a terminal it shows all steps of the plans."""

    def __init__(self, journal: Journal | None = None, *, parallel: bool = False) -> None:
        self._journal = journal
        self.parallel = parallel
        board = Board(lambda: usual_seconds(past_runs(_LEARNED_FROM)))
        self.screen = Screen(sys.stderr, board, named=parallel) if draws(sys.stderr) else None
        self.ended = False
        self._silent = False
        self._start = time.monotonic()

    def of(self, agent: str) -> AgentReporter:
        """Return the reporter for one agent."""
        if self.screen:
            with self.screen.changing() as board:
                board.expect(agent)
        return AgentReporter(self, agent, f"{agent}: " if self.parallel else "")

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
            self.ended = True
            self._end_frame()
            self._silent = self.parallel  # a thread may still work on an agent when the run was stopped
            if self._journal:
                self._journal.close()

    def _end_frame(self) -> None:
        if self.screen is None:
            return
        with self.screen.changing() as board:
            agents = board.agents
        for agent in agents:
            self.of(agent).finish()
        self.screen.close()

    def write(self, event: str, **fields: object) -> None:
        if self._journal:
            self._journal.write(event, **fields)

    def print(self, text: str, style: str = "") -> None:
        if self._silent:
            return
        if self.screen:
            self.screen.print(_indented(text), style)
        else:
            print(visible(mask(_indented(text))), file=sys.stderr, flush=True)


@frozen
class _Shown:
    """The step that runs."""

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
        screen = self._reporter.screen
        if screen and self._reporter.parallel and "\n" not in text:
            with screen.changing() as board:
                if board.note(self._agent, _title(text)):
                    return
        self._reporter.print(f"{self._prefix}{text}", "dim")

    def warn(self, text: str) -> None:
        """Print an important line. On a terminal no text of an agent can look like it."""
        self._reporter.print(f"{self._prefix}{text}", "bold yellow")

    def journal(self, event: str, **fields: object) -> None:
        """Write an event to the journal without printing it."""
        self._reporter.write(event, agent=self._agent, **fields)

    @contextmanager
    def plan(self, steps: Sequence[Step], then: Sequence[Step] = ()) -> Iterator[None]:
        """Show the steps of a plan, and of the plan after it, on a terminal from the start."""
        screen = self._reporter.screen
        if screen is None:
            yield
            return
        with screen.changing() as board:
            board.plan(self._agent, [(step.id, _title(step.title)) for step in (*steps, *then)], time.monotonic())
        try:
            yield
        except BaseException:
            with screen.changing() as board:
                board.plan(self._agent, (), time.monotonic())
            raise

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show the reason for a wait on a terminal until the context ends. The wait is no step."""
        screen = self._reporter.screen
        if screen is None:
            yield
            return
        with screen.changing() as board:
            row = board.begin(self._agent, "", _title(what), time.monotonic(), passing=True)
        try:
            yield
        finally:
            with screen.changing() as board:
                board.end(self._agent, row, time.monotonic())

    def finish(self) -> None:
        """Remove the agent from the frame. The lines about its steps stay."""
        screen = self._reporter.screen
        if screen is None:
            return
        self._record(screen)
        with screen.changing() as board:
            for row in board.close(self._agent)[:1]:
                screen.print(f"  ✗ {self._prefix}{row.title} (stopped)", "red")

    @contextmanager
    def step(self, step_id: str, title: str) -> Iterator[None]:
        """Report one step: print its title, its duration when it ends, or its failure."""
        if self._reporter.ended:
            raise PaddockError(f"{self._agent}: the run was stopped")  # while another thread worked on this agent
        start = time.monotonic()
        self.journal("begin", id=step_id, title=title)
        outer = self._shown
        try:
            with self._showing(step_id, title) as self._shown:
                yield
        except BaseException as error:
            self.journal("failed", id=step_id, error=str(error) or type(error).__name__)
            self._ended(title, None)
            raise
        finally:
            self._shown = outer
        seconds = time.monotonic() - start
        self.journal("done", id=step_id, seconds=round(seconds, 3))
        self._ended(title, seconds)

    @contextmanager
    def _showing(self, step_id: str, title: str) -> Iterator[_Shown]:
        screen = self._reporter.screen
        if screen is None:
            told = f"… {self._prefix}{title}"
            self._reporter.print(told)
            yield _Shown(lambda more: self._reporter.print(f"{told}: {more}"), _RARELY)
            return
        with screen.changing() as board:
            row = board.begin(self._agent, step_id, _title(title), time.monotonic())

        def show(text: str) -> None:
            with screen.changing():
                row.output = one_line(mask(text))

        failed = True
        try:
            yield _Shown(show, _REFRESH)
            failed = False
        finally:
            with screen.changing() as board:
                board.end(self._agent, row, time.monotonic(), failed=failed)

    def _ended(self, title: str, seconds: float | None) -> None:
        """Print the line about a step that has ended. Of several agents on a terminal, the lines wait in the frame."""
        screen = self._reporter.screen
        if screen is None:
            told = f"{self._prefix}{title}"
            done = seconds is not None
            self._reporter.print(f"✓ {told}  {seconds:.1f} s" if done else f"✗ {told}", "green" if done else "red")
        elif not self._reporter.parallel:
            self._record(screen)

    def _record(self, screen: Screen) -> None:
        with screen.changing() as board:
            rows: list[Row] = list(board.record(self._agent))
            for row in rows:
                told = f"{self._prefix}{row.title}"
                if row.note:
                    screen.print(f"  {told}", "dim")
                elif row.state is State.DONE:
                    screen.print(record(f"  ✓ {told}", row.seconds, screen.width), "green")
                else:
                    screen.print(f"  ✗ {told}", "red")

    def output(self, text: str) -> None:
        """Show the newest output line of the running step on a terminal, but not in a log."""
        if self._shown and self._reporter.screen:
            self._shown.show(text)

    def progress(self, total: Callable[[], int | None]) -> Progress:
        """Return a function that adds up numbers of bytes and shows the sum beside the running step.

        The total may become known later. Until then only the sum is shown.
        """
        shown = self._shown
        return Progress(shown.show, shown.every, total) if shown else Progress(self.say, _RARELY, total)


def _title(text: str) -> str:
    return one_line(mask(text))


def _indented(text: str) -> str:
    """Indent the text, and further lines more than the first, so that none looks like a step."""
    return "  " + text.replace("\n", "\n      ")
