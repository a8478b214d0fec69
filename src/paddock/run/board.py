"""What a terminal shows about a run: the steps of each agent that are done, running and to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


class State(StrEnum):
    """How far a step is."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    TO_COME = "to come"


@dataclass(eq=False)
class Row:
    """One step of an agent, or something that it waits for."""

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
    """The rows of one agent, in the order in which they run."""

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
        """The sections in which something runs or is to come."""
        return [self._sections[agent] for agent in self.agents if self._sections[agent].active]

    @cached_property
    def _usual(self) -> Mapping[str, float]:
        return self._learn()

    def plan(self, agent: str, steps: Iterable[tuple[str, str]], now: float) -> None:
        """Show these steps, by id and title, as those that are to come."""
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
