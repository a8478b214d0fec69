"""Run a verb in a process of its own, and kill that process with SIGKILL at a chosen point.

The process is a fork. The simulated world stays in the process that forked it: the fork asks for every request and for
everything that machines remember. So the world goes on after the kill, and nothing of the killed run can clean up.

A point is a moment at which the run stops until the world lets it go on: before and after the effect of each step,
around each writing request, and around each program on a machine. Their order does not depend on time.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from paddock.base.errors import PaddockError
from paddock.base.process import Pipes, Result
from paddock.channels.local import LocalGuest
from paddock.show.reporter import AgentReporter

BEFORE, AFTER = "before", "after"
_LONGEST: Final = 300  # seconds of one kill with everything after it
BETWEEN: Final = "-"  # no step runs
IN_STREAM: Final = "in a stream"


@dataclass(frozen=True)
class Point:
    """A moment of a run."""

    step: str  # the step that runs, or BETWEEN
    moment: str  # BEFORE or AFTER the effect of the step, or what happens within it

    @property
    def is_edge(self) -> bool:
        """Whether it is right before or after the effect of a step."""
        return self.moment in (BEFORE, AFTER)

    def __str__(self) -> str:
        return f"{self.step} {self.moment}"


@dataclass(frozen=True)
class End:
    """How a run in a process of its own has ended, and the points that it has passed."""

    points: Sequence[Point]
    killed: bool
    error: str | None = None  # the message of the error that it ended with

    @property
    def ok(self) -> bool:
        return not self.killed and self.error is None


Ask = Callable[..., Any]  # the name of a service of the world, and its arguments


class World(Protocol):
    """What stays when a run is killed."""

    def facts(self) -> object:
        """Return everything that a killed run leaves. Two points with equal facts are the same moment."""
        ...

    def services(self) -> Mapping[str, Callable[..., Any]]:
        """Return what a run may ask for, by name."""
        ...

    def connect(self, ask: Ask, reach: Callable[[str], None]) -> None:
        """Make this process one that asks for everything; ``reach`` is called at each point within a step."""
        ...


def run_apart(world: World, verb: Callable[[], object], at_point: Callable[[int, Point], bool]) -> End:
    """Run a verb in a process of its own. It is killed at the first point for which ``at_point`` returns True."""
    here, there = Pipe()
    pid = os.fork()
    if pid == 0:
        here.close()
        _run(world, verb, there)
    there.close()
    services, points, killed = world.services(), list[Point](), False
    error: str | None = "the process ended without a word"
    try:
        while True:
            try:
                name, *arguments = here.recv()
            except (EOFError, ConnectionResetError):
                break
            if name == "end":
                [error] = arguments
            elif name == "point":
                points.append(arguments[0])
                if at_point(len(points) - 1, arguments[0]):
                    os.kill(pid, signal.SIGKILL)
                    killed = True
                    break
                here.send((True, None))
            else:
                here.send(_answered(services[name], arguments))
    finally:
        here.close()
        _, status = os.waitpid(pid, 0)
        assert not killed or os.WTERMSIG(status) == signal.SIGKILL
    return End(points, killed, None if killed else error)


def _answered(service: Callable[..., Any], arguments: Sequence[Any]) -> tuple[bool, Any]:
    try:
        return True, service(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again in the run
        return False, error


def _run(world: World, verb: Callable[[], object], connection: Connection) -> None:
    """Be the process of the run, until it ends."""
    error: str | None = None
    try:
        asking = threading.Lock()

        def ask(name: str, *arguments: Any) -> Any:
            with asking:
                connection.send((name, *arguments))
                ok, answer = connection.recv()
            return answer if ok else _raised(answer)

        steps: list[str] = []

        def reach(moment: str) -> None:
            ask("point", Point(steps[-1] if steps else BETWEEN, moment))

        _watch_steps(steps, reach)
        _watch_programs(LocalGuest, reach)
        world.connect(ask, reach)
        verb()
    except PaddockError as failure:
        error = f"{type(failure).__name__}: {failure.message}"
    except BaseException:  # noqa: BLE001 - the other process reports it
        error = traceback.format_exc()
    try:
        connection.send(("end", error))
        connection.close()
    finally:
        os._exit(0)


def _raised(error: Exception) -> NoReturn:
    raise error


def _watch_steps(steps: list[str], reach: Callable[[str], None]) -> None:
    """Pass a point before and after the effect of each step. This process ends soon, so the patch stays."""
    report = AgentReporter.step

    @contextmanager
    def step(self: AgentReporter, step_id: str, title: str) -> Iterator[None]:
        steps.append(step_id)
        try:
            reach(BEFORE)
            with report(self, step_id, title):
                yield
                reach(AFTER)
        finally:
            steps.pop()

    AgentReporter.step = step  # type: ignore[method-assign]


def _watch_programs(guest: Any, reach: Callable[[str], None]) -> None:
    """Pass a point before and after each program on a machine, and while it reads or writes a stream."""
    run, piped = guest.run, guest.piped

    def watched(self: Any, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        reach("before a program")
        done: Result = run(self, argv, stdin=stdin, deadline=deadline)
        reach("after a program")
        return done

    def streamed(self: Any, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        @contextmanager
        def stream() -> Iterator[Pipes]:
            reach("before a stream")
            with piped(self, argv) as pipes:
                reach(IN_STREAM)
                yield pipes
            reach("after a stream")

        return stream()

    guest.run, guest.piped = watched, streamed


watch_programs = _watch_programs


class Shared:
    """A dictionary of the world, as a run sees it."""

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask, self._name = ask, name

    def get(self, key: Any, default: Any = None) -> Any:
        return self._ask(self._name, "get", key, default)

    def pop(self, key: Any, default: Any = None) -> Any:
        return self._ask(self._name, "pop", key, default)

    def __contains__(self, key: Any) -> bool:
        return bool(self._ask(self._name, "__contains__", key))

    def __getitem__(self, key: Any) -> Any:
        return self._ask(self._name, "__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask(self._name, "__setitem__", key, value)


def share(found: Callable[[], dict[Any, Any]]) -> Callable[..., Any]:
    """Return the service behind a `Shared` dictionary."""
    return lambda method, *arguments: getattr(found(), method)(*arguments)


def in_fork(work: Callable[[], Any]) -> Any:
    """Do something in a copy of this process and return the result: what it changes in memory is forgotten."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        faulthandler.dump_traceback_later(_LONGEST, exit=True, file=2)
        try:
            told = pickle.dumps((True, work()))
        except BaseException:  # noqa: BLE001 - raised again in the other process
            told = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writing, "wb") as file:
            file.write(told)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read()
    os.waitpid(pid, 0)
    ok, result = pickle.loads(told) if told else (False, "the copy of the process ended without a word")
    assert ok, result
    return result
