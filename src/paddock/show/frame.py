"""The steps of a run, laid out as lines for a terminal of a given size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from paddock.base.frozen import frozen
from paddock.show.table import cells, cut


class State(StrEnum):
    """How far a step is."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    TO_COME = "to come"


@dataclass(eq=False)
class Row:
    """One step of an agent, or one wait."""

    id: str
    title: str
    state: State
    usual: float | None = None  # seconds, learned from past runs
    began: float = 0.0
    seconds: float = 0.0  # how long it took, once it has ended
    output: str = ""  # its newest line
    depth: int = 0  # a step within another one has 1
    note: bool = False  # not a step, but recorded among them
    passing: bool = False  # not a step: nothing is recorded of it
    recorded: bool = False  # its line is printed, and stays on the terminal

    @property
    def ended(self) -> bool:
        return self.state in (State.DONE, State.FAILED)

    def elapsed(self, now: float) -> float:
        return self.seconds if self.ended else max(now - self.began, 0.0)

    def left(self, now: float) -> float | None:
        """How many seconds the step still takes, if past runs say it."""
        if self.ended or self.usual is None:
            return 0.0 if self.ended else None
        return self.usual if self.state is State.TO_COME else max(self.usual - self.elapsed(now), 0.0)


@dataclass
class Section:
    """The rows of one agent, in the order of the run."""

    agent: str
    began: float
    rows: list[Row] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether a step runs or is to come."""
        return any(not row.ended for row in self.rows)

    def running(self) -> list[Row]:
        return [row for row in self.rows if row.state is State.RUNNING]

    def counted(self) -> list[Row]:
        """Return the steps of the plan, and those that came in addition."""
        return [row for row in self.rows if not row.passing and not row.note and row.depth == 0]

    def left(self, now: float) -> float | None:
        """How many seconds the rest takes. None if past runs do not say it of every step."""
        parts = [row.left(now) for row in self.counted()]
        known = [part for part in parts if part is not None]
        return sum(known) if parts and len(known) == len(parts) else None


class Board:
    """The sections of all agents that have something to show."""

    def __init__(self, usual: Callable[[], Mapping[str, float]]) -> None:
        self._learn = usual  # reads journals, which only a run with steps needs
        self._sections: dict[str, Section] = {}
        self._order: list[str] = []

    def expect(self, agent: str) -> None:
        """Reserve the place of an agent: below those that were expected before."""
        if agent not in self._order:
            self._order.append(agent)

    @property
    def sections(self) -> list[Section]:
        """The sections with a running or a pending step."""
        return [self._sections[agent] for agent in self.agents if self._sections[agent].active]

    @cached_property
    def _usual(self) -> Mapping[str, float]:
        return self._learn()

    def plan(self, agent: str, steps: Iterable[tuple[str, str]], now: float) -> None:
        """Show these steps, by id and title, as pending."""
        section = self._section(agent, now)
        section.rows = [row for row in section.rows if row.state is not State.TO_COME]
        section.rows += [Row(each, title, State.TO_COME, self._usual.get(each)) for each, title in steps]

    def begin(self, agent: str, step_id: str, title: str, now: float, *, passing: bool = False) -> Row:
        """Show that a step runs. A step that was not planned appears below those that have begun."""
        section = self._section(agent, now)
        depth = len(section.running())
        coming = [row for row in section.rows if row.state is State.TO_COME]
        row = next((row for row in coming if (row.id, row.title) == (step_id, title) and not depth), None)
        if row is None:
            row = Row(step_id, title, State.RUNNING, self._usual.get(step_id), passing=passing, depth=depth)
        else:
            section.rows.remove(row)
        row.state, row.began = State.RUNNING, now
        at = next((at for at, each in enumerate(section.rows) if each.state is State.TO_COME), len(section.rows))
        section.rows.insert(at, row)
        return row

    def end(self, agent: str, row: Row, now: float, *, failed: bool = False) -> None:
        """Show that a step has ended."""
        row.seconds = row.elapsed(now)
        row.state = State.FAILED if failed else State.DONE
        row.output = ""
        if row.passing and row in self._section(agent, now).rows:
            self._section(agent, now).rows.remove(row)

    def record(self, agent: str) -> Iterator[Row]:
        """Yield the rows of an agent that have ended and were not recorded yet."""
        section = self._sections.get(agent)
        for row in section.rows if section else ():
            if row.ended and not row.recorded:
                row.recorded = True
                yield row

    def close(self, agent: str) -> list[Row]:
        """Show nothing of an agent any more. Return its rows that are still running, the outermost first."""
        section = self._sections.pop(agent, None)
        return section.running() if section else []

    @property
    def agents(self) -> list[str]:
        return sorted(self._sections, key=self._order.index)

    def note(self, agent: str, text: str) -> bool:
        """Show a note among the steps of an agent. Return False if it has none."""
        section = self._sections.get(agent)
        if section is None or not section.active:
            return False
        depth = max(len(section.running()) - 1, 0)
        at = next((at for at, row in enumerate(section.rows) if not row.ended), 0)
        section.rows.insert(at, Row("", text, State.DONE, note=True, depth=depth))
        return True

    def _section(self, agent: str, now: float) -> Section:
        self.expect(agent)
        return self._sections.setdefault(agent, Section(agent, now))


_WIDEST: Final = 100  # columns: on a wider terminal the times would be far from their titles
_TIME: Final = 9  # columns for the elapsed time
_HINT: Final = 14  # columns for the time left
_LEAST: Final = 24  # columns of a title, below which the time left is not shown
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TURNS: Final = 10  # of the spinner in a second
_NO_LIMIT: Final = 1 << 20  # lines
_SECONDS: Final = 100  # from which a time is in minutes


@frozen
class Size:
    """The size of a terminal."""

    width: int
    height: int


@frozen
class Line:
    """A line: a text, a time and a remark about it, each in its columns."""

    text: str
    time: str = ""
    hint: str = ""
    style: str = ""

    def parts(self, width: int) -> tuple[str, str]:
        """Return the text, and the times at the columns behind it, as they fit into a width."""
        columns = _columns(width)
        hint = f"  {self.hint}" if columns.hints and self.hint else ""
        times = f"{self.time:>{min(_TIME, columns.whole)}}{hint}" if self.time or hint else ""
        return cut(self.text, columns.text if times else columns.whole), times

    def plain(self, width: int) -> str:
        """Return the line without colours."""
        text, times = self.parts(width)
        pad = _columns(width).text - cells(text) if times else 0
        return f"{text}{' ' * pad}{times}".rstrip()


@frozen
class _Columns:
    whole: int  # columns of a line
    text: int  # of them, those before the time
    hints: bool  # whether there is room for the time left


def _columns(width: int) -> _Columns:
    # The last column stays empty: some terminals wrap a line that fills it.
    whole = max(min(width, _WIDEST) - 1, 1)
    hints = whole - _TIME - _HINT >= _LEAST
    return _Columns(whole, max(whole - _TIME - (_HINT if hints else 0), 0), hints)


def text_columns(width: int) -> int:
    """Return the columns before the time."""
    return _columns(width).text


def record(text: str, seconds: float, width: int) -> str:
    """Return the line that stays when a step has ended.

    Its time is in the column of the times in the frame, or behind a longer text.
    """
    time = f"{seconds:.1f} s"
    if cells(text) <= _columns(width).text:
        return Line(text, time).plain(width)
    return f"{cut(text, width - 1 - len(time) - 2)}  {time}"


def frame(sections: Sequence[Section], size: Size, now: float, *, named: bool) -> list[Line]:
    """Return the lines for the sections. They are fewer than the terminal's, so that it never scrolls."""
    room = max(size.height - 1, 1)
    if len(sections) > room:
        more = len(sections) - room + 1
        shown = [_short(section, now, named=named) for section in sections[: room - 1]]
        return [*shown, Line(f"  … {more} more agents", style="dim")]
    rooms = _shared([len(_section(section, now, _NO_LIMIT, named=named)) for section in sections], room)
    pairs = zip(sections, rooms, strict=True)
    return [line for section, lines in pairs for line in _section(section, now, lines, named=named)]


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """Share the lines of the terminal: each agent gets at most the lines it needs, and the rest is shared equally."""
    given = [1] * len(wanted)
    while sum(given) < room:
        short = [at for at, lines in enumerate(given) if lines < wanted[at]]
        if not short:
            break
        given[min(short, key=lambda at: given[at])] += 1
    return given


def _section(section: Section, now: float, room: int, *, named: bool) -> list[Line]:
    """Return the lines of one agent. If they do not fit, steps that are done and to come are folded first."""
    if room == 1:
        return [_short(section, now, named=named)]
    ended = [row for row in section.rows if row.ended and not row.recorded]
    running = section.running()
    coming = [row for row in section.rows if row.state is State.TO_COME]
    output = _output(running)
    total = [_total(section, now, named=named)] if named or len(section.counted()) > 1 else []
    early, late = len(ended), len(coming)  # how many of them are shown

    def needed() -> int:
        folds = (early < len(ended)) + (late < len(coming))
        return len(total) + len(running) + len(output) + early + late + folds

    while needed() > room and (early or late):
        early, late = (early - 1, late) if early >= late else (early, late - 1)
    # A fold of one step would take as many lines as the step itself.
    early, late = early + (len(ended) - early == 1), late + (len(coming) - late == 1)
    shown = [_line(row, now) for row in running]
    before = [_fold(len(ended) - early, "done"), *(_line(row, now) for row in ended[len(ended) - early :])]
    after = [*(_line(row, now) for row in coming[:late]), _fold(len(coming) - late, "to come")]
    parts = {
        "before": [line for line in before if line],
        "running": shown,
        "output": output,
        "after": [line for line in after if line],
        "total": total,
    }
    for name in ("before", "after", "output", "running", "total"):
        over = sum(map(len, parts.values())) - room
        if over > 0:
            # Of steps within steps, the innermost says most.
            parts[name] = parts[name][over:]
    top = parts.pop("total")
    inside = [line for lines in parts.values() for line in lines]
    return [*top, *inside] if named else [*inside, *top]


def _short(section: Section, now: float, *, named: bool) -> Line:
    """Return an agent in one line: the step that runs, and how long the agent takes."""
    running = section.running()
    line = _line(running[-1] if running else next(row for row in section.rows if not row.ended), now)
    mark, _, title = line.text.lstrip().partition(" ")
    name = f"{section.agent}: " if named else ""
    return replace(line, text=f"  {mark} {name}{title}")


def _line(row: Row, now: float) -> Line:
    indent = "  " * (row.depth + 1)
    if row.note:
        return Line(f"{indent}{row.title}", style="dim")
    match row.state:
        case State.DONE:
            return Line(f"{indent}✓ {row.title}", f"{row.seconds:.1f} s", style="green")
        case State.FAILED:
            return Line(f"{indent}✗ {row.title}", f"{row.seconds:.1f} s", style="red")
        case State.TO_COME:
            usual = f"~{_words(row.usual)}" if row.usual and row.usual >= 1 else ""
            return Line(f"{indent}· {row.title}", hint=usual, style="dim")
        case State.RUNNING:
            mark = _SPINNER[int(now * _TURNS) % len(_SPINNER)]
            return Line(f"{indent}{mark} {row.title}", _words(row.elapsed(now)), _remark(row, now))


def _remark(row: Row, now: float) -> str:
    """Return the time left of a step, or its usual time if it takes longer."""
    left = row.left(now)
    if left is None or row.usual is None:
        return ""
    return f"~{_words(left)} left" if left >= 1 else f"usually {_words(row.usual)}" if row.usual >= 1 else ""


def _output(running: Sequence[Row]) -> list[Line]:
    said = [row for row in running if row.output]
    return [Line(f"{'  ' * (row.depth + 2)}{row.output}", style="dim") for row in said[-1:]]


def _fold(count: int, what: str) -> Line | None:
    return Line(f"  … {count} {what}", style="dim") if count else None


def _total(section: Section, now: float, *, named: bool) -> Line:
    steps = section.counted()
    done = sum(row.ended for row in steps)
    count = f"{done} of {len(steps)} done" if steps else ""
    left = section.left(now)
    hint = f"~{_words(left)} left" if left is not None and left >= 1 else ""
    text = "  ".join(filter(None, (section.agent, count))) if named else f"    {count}"
    return Line(text, _words(now - section.began), hint, "bold" if named else "dim")


def _words(seconds: float) -> str:
    """Return a time in seconds, and a long one as a clock shows it."""
    whole = max(int(seconds + 0.5), 0)
    if whole < _SECONDS:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
