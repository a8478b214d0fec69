"""Measure `plan`, `up` with nothing to do, and `status` with many agents: `python -m bench.fleet`.

The node is a sandbox with the memory runtime that delays each answer. The agents exist there as Paddock created them.
Their machines answer from memory. The processes use compiled bytecode, as an installed Paddock does, from the second
round on. Prints each figure; the exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench import fleet_stage as stage
from bench.noop import with_bytecode
from pvebox.cluster.fixture import default_fixture

SIZES: Final = (1, 10, 100, 500)
ABSENT: Final = (100, 300)
LATENCY: Final = 20  # milliseconds, of each request
PLAN_SECONDS: Final = 2.0  # for 100 agents
SPARE_CALLS: Final = 20  # in addition to one for each container
# What each verb prints for an agent that is as the file says.
VERBS: Final = {"plan": "nothing to do", "up": "nothing to do, and healthy", "status": '"health": "ok"'}
_OPTIONS: Final = {"plan": (), "up": (), "status": ("--json",)}
# Starts as the installed program `paddock` does.
_PROGRAM: Final = """
from paddock.__main__ import start_fast
start_fast()
from bench.fleet_machines import main
main()
"""


@dataclass(frozen=True)
class Figure:
    """What one verb took for a number of agents."""

    verb: str
    agents: int
    exist: bool
    seconds: float
    cpu: float  # seconds of Paddock's own
    calls: int
    memory: int  # bytes at its peak

    @property
    def containers(self) -> int:
        """The containers of the node: a pet and a machine for each agent, and their template."""
        return 2 * self.agents + 1 if self.exist else 0

    @property
    def name(self) -> str:
        return self.verb if self.exist else f"{self.verb}, absent"


def measure(folder: Path, verb: str, count: int, file: Path, log: Path, *, exist: bool = True) -> Figure:
    """Run a verb; return what it took. Raise if an agent that exists is not as the file says."""
    before = _lines(log)
    command = [sys.executable, "-c", _PROGRAM, str(folder), verb, "--file", str(file), *_OPTIONS[verb]]
    environment = with_bytecode(_environment(folder), folder)
    began = time.perf_counter()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    calls = _lines(log) - before
    if ran.returncode or (exist and ran.stdout.count(VERBS[verb]) != count):
        told = f"{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        raise SystemExit(f"`{verb}` of {count} agents ended with {ran.returncode}:\n{told}")
    used = json.loads((folder / "used.json").read_text())
    return Figure(verb, count, exist, seconds, used["cpu"], calls, used["memory"])


def _lines(log: Path) -> int:
    """Return the number of requests that the sandbox has answered so far."""
    return len(log.read_text().splitlines()) if log.exists() else 0


def _environment(folder: Path) -> dict[str, str]:
    own = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CACHE", "DATA", "CONFIG")}
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(sys.path)}


def of_existing(folder: Path, made: stage.Made, count: int, rounds: int) -> list[Figure]:
    """Measure all verbs with this many agents that exist; of each verb the fastest of some rounds."""
    with stage.sandbox(folder / f"{count}", stage.fixture_of(made, stage.names(count)), LATENCY) as ready:
        file = stage.write_file(folder / f"{count}", ready, stage.names(count))
        stage.remember_machines(folder, file)
        log = Path(ready["state"]) / "access.log"
        found = [measure(folder, verb, count, file, log) for _ in range(rounds) for verb in VERBS]
    return [min((each for each in found if each.verb == verb), key=lambda each: each.seconds) for verb in VERBS]


def of_absent(folder: Path, count: int, rounds: int) -> Figure:
    """Measure `plan` of this many agents on an empty node."""
    with stage.sandbox(folder / f"absent-{count}", default_fixture(), LATENCY) as ready:
        file = stage.write_file(folder / f"absent-{count}", ready, stage.names(count))
        (folder / "seen.pickle").write_bytes(stage.nothing_seen())
        log = Path(ready["state"]) / "access.log"
        found = [measure(folder, "plan", count, file, log, exist=False) for _ in range(rounds)]
    return min(found, key=lambda each: each.seconds)


def table(figures: Sequence[Figure]) -> list[str]:
    """Return the figures as lines; growth compares the time per agent with that of the next smaller number."""
    numbers = f"{'agents':>7}{'s':>8}{'CPU s':>8}{'calls':>7}{'calls/container':>17}{'MiB':>6}{'ms/agent':>10}"
    said = [f"{'verb':14}{numbers}{'growth':>8}"]
    before: dict[str, Figure] = {}
    for each in figures:
        last = before.get(each.name)
        growth = f"{(each.seconds / each.agents) / (last.seconds / last.agents):8.2f}" if last else f"{'':8}"
        share = f"{each.calls / each.containers:17.2f}" if each.containers else f"{'':17}"
        said.append(
            f"{each.name:14}{each.agents:7}{each.seconds:8.2f}{each.cpu:8.2f}{each.calls:7}{share}"
            f"{each.memory / (1 << 20):6.0f}{1000 * each.seconds / each.agents:10.1f}{growth}"
        )
        before[each.name] = each
    return said


def missed(figures: Sequence[Figure]) -> list[str]:
    """Return a sentence for each limit that is missed."""
    found = []
    by_size: Mapping[tuple[str, int], Figure] = {(each.name, each.agents): each for each in figures}
    for each in figures:
        if each.verb == "plan" and each.agents == 100 and each.seconds > PLAN_SECONDS:
            found.append(f"{each.name} of 100 agents took {each.seconds:.2f} s, the limit is {PLAN_SECONDS} s")
        if each.calls > each.containers + SPARE_CALLS:
            limit = each.containers + SPARE_CALLS
            found.append(f"{each.name} of {each.agents} agents made {each.calls} calls, the limit is {limit}")
        small = by_size.get((each.name, 100))
        if small and each.agents == 500 and each.seconds / 500 > small.seconds / 100:
            slower = f"{1000 * each.seconds / 500:.1f} ms for each of 500 agents, {10 * small.seconds:.1f} ms of 100"
            found.append(f"{each.name} takes {slower}")
    return found


def main(argv: Sequence[str]) -> int:
    """Measure, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few agents and one round; most limits are not checked")
    parser.add_argument("--agents", type=int, nargs="+", default=SIZES, help="numbers of agents (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest of this many rounds counts (%(default)s)")
    parser.add_argument("--out", type=Path, help="write fleet.json into this folder")
    asked = parser.parse_args(argv)
    sizes, absent, rounds = ((1, 10), (10,), 1) if asked.quick else (asked.agents, ABSENT, asked.rounds)
    with tempfile.TemporaryDirectory(prefix="paddock-fleet-") as name:
        folder = Path(name)
        os.environ.update(_environment(folder))
        made = stage.make_one(folder)
        figures = [each for count in sizes for each in of_existing(folder, made, count, rounds)]
        figures += [of_absent(folder, count, rounds) for count in absent]
    figures.sort(key=lambda each: (not each.exist, list(VERBS).index(each.verb), each.agents))
    print("\n".join(table(figures)))
    too_much = missed(figures)
    print("\n".join(too_much or ["All limits are met."]))
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        data = {"figures": [asdict(each) for each in figures], "missed": too_much, "latency_ms": LATENCY}
        (asked.out / "fleet.json").write_text(json.dumps(data, indent=2) + "\n")
    return int(bool(too_much))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
