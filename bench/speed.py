"""Measure how long requests take in the memory runtime, with few and with many containers."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

Json = Any
SIZES = (10, 100, 500)
# In seconds. A request that does not list containers must be answered within this time, whatever their number.
LIMIT = 0.005
# The time of a listing per container, with the most containers, as a multiple of the time with fewer.
RATIO_LIMIT = 1.5
_TEMPLATE = {"rootfs": "local-lvm:2", "features": "nesting=1", "pool": "paddock"}


class Client(Protocol):
    """A persistent connection to a sandbox."""

    def ask(self, method: str, path: str, **params: Json) -> Json:
        """Send a request and return the data of the answer."""
        ...

    def task(self, method: str, path: str, **params: Json) -> float:
        """Send a request that starts a task, and return the seconds until the task has succeeded."""
        ...


@dataclass(frozen=True)
class Question:
    """A request to measure. `undo` runs after each one and is not measured."""

    name: str
    ask: Callable[[], object]
    undo: Callable[[], object] = lambda: None
    lists: bool = False


@dataclass(frozen=True)
class Figure:
    """Median and 95th percentile of a request's times, in seconds."""

    median: float
    p95: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Figure:
        """Summarise the times."""
        return cls(statistics.median(times), statistics.quantiles(times, n=20)[-1])


def questions(client: Client, pooled: Client, base: str) -> Iterator[Question]:
    """Yield the requests to measure: root's, and listings of a token that has rights on the containers' pool only.

    Container 100 is running, container 101 is not.
    """
    numbers = itertools.count(1)
    one, node, volumes = "/nodes/pve/lxc/100", "/nodes/pve", "/nodes/pve/storage/local-lvm/content"

    def get(path: str, *, lists: bool = False) -> Question:
        return Question(f"GET {path}", lambda: client.ask("GET", path), lists=lists)

    def wait(upid: str) -> None:
        while client.ask("GET", f"{node}/tasks/{upid}/status")["status"] != "stopped":
            time.sleep(0.002)

    def starting(name: str, path: str, undo: Callable[[], object], **params: Json) -> Question:
        """Return a request that starts a task. Only the request is measured, not the task."""
        begun: list[str] = []

        def settle() -> None:
            wait(begun.pop())
            undo()

        return Question(name, lambda: begun.append(client.ask("POST", path, **params)), settle)

    yield get("/version")
    yield get("/cluster/nextid")
    yield get(f"{one}/config")
    yield get(f"{one}/status/current")
    yield Question(
        f"PUT {one}/config", lambda: client.ask("PUT", f"{one}/config", description=f"change {next(numbers)}")
    )
    yield starting(
        "POST /nodes/pve/lxc/101/status/start",
        f"{node}/lxc/101/status/start",
        lambda: client.task("POST", f"{node}/lxc/101/status/stop"),
    )
    yield starting(
        "POST /nodes/pve/lxc",
        f"{node}/lxc",
        lambda: client.task("DELETE", f"{node}/lxc/9000"),
        vmid=9000,
        ostemplate=base,
        **_TEMPLATE,
    )
    yield starting(
        f"POST {one}/snapshot",
        f"{one}/snapshot",
        lambda: client.task("DELETE", f"{one}/snapshot/bench"),
        snapname="bench",
    )
    name = "vm-100-bench"
    yield Question(
        f"POST {volumes}",
        lambda: client.ask("POST", volumes, vmid=100, filename=name, size="4M"),
        lambda: client.task("DELETE", f"{volumes}/{name}"),
    )
    yield Question("PUT /pools/paddock", lambda: client.ask("PUT", "/pools/paddock", comment=f"{next(numbers)}"))
    yield get(f"{node}/tasks?limit=50")
    for path in (f"{node}/lxc", "/cluster/resources", volumes, "/pools/paddock", "/access/permissions"):
        yield get(path, lists=True)
        yield Question(f"GET {path} (pooled)", partial(pooled.ask, "GET", path), lists=True)


def fill(client: Client, base: str, count: int) -> None:
    """Create containers, half of them running, until there are this many."""
    have = {entry["vmid"] for entry in client.ask("GET", "/nodes/pve/lxc")}
    for vmid in range(100, 100 + count):
        if vmid not in have:
            client.task("POST", "/nodes/pve/lxc", vmid=vmid, ostemplate=base, start=int(vmid % 2 == 0), **_TEMPLATE)


def measured(question: Question, rounds: int) -> Figure:
    """Ask some times and return the figure, without the first time, which may connect."""
    question.ask()
    question.undo()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        question.ask()
        times.append(time.perf_counter() - began)
        question.undo()
    return Figure.of(times)


def table(client: Client, pooled: Client, base: str, rounds: int = 60) -> dict[str, tuple[list[Figure], bool]]:
    """Return the figures of each request for every number of containers, and whether it is a listing."""
    found: dict[str, tuple[list[Figure], bool]] = {}
    for count in SIZES:
        fill(client, base, count)
        for question in questions(client, pooled, base):
            found.setdefault(question.name, ([], question.lists))[0].append(measured(question, rounds))
    return found


def growth(figures: Sequence[Figure]) -> float:
    """Return the time per container with the most containers, divided by that with the second most."""
    before, after = figures[-2:]
    return (after.median / SIZES[-1]) / (before.median / SIZES[-2])


def lines(found: dict[str, tuple[list[Figure], bool]]) -> tuple[list[str], bool]:
    """Return the table as lines, and whether a limit was missed."""
    head = "".join(f"{f'{count} containers':>18}" for count in SIZES)
    said = [f"{'request (median, p95 in ms)':48}{head}  ratio"]
    missed = False
    for name, (figures, lists) in found.items():
        cells = "".join(f"{each.median * 1000:10.2f}{each.p95 * 1000:8.2f}" for each in figures)
        ratio = growth(figures)
        ok = ratio <= RATIO_LIMIT if lists else figures[-1].median <= LIMIT
        missed |= not ok
        said.append(f"{name:48}{cells}  {f'{ratio:5.2f}' if lists else '     '}  {'ok' if ok else 'MISSED'}")
    said.append(f"The ratio is the time per container with {SIZES[-1]} against {SIZES[-2]}, at most {RATIO_LIMIT}.")
    said.append(f"The median of all other requests is at most {LIMIT * 1000:.0f} ms.")
    return said, missed
