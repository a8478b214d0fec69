"""Recreate the machine of a busy agent many times: nothing is lost, nothing is left behind, nothing becomes slower.

As root, on a machine where LXC works: PYTHONPATH=src:tests .venv/bin/python -m faults.soak --cycles 100
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from faults import records
from faults.inventory import inventory, leaks_now
from faults.judge import TEN, Sample, growth, pace, shown, slowdown
from faults.ledger import Ledger, listening
from faults.long_run import long_run
from live.node import Node
from paddock.demo import lxc_stage
from pvebox.standins.stage import stage_folder

AGENT: Final = "busy"
HOME: Final = f"/var/lib/paddock/{AGENT}/home"
PROGRAM: Final = Path(records.__file__).read_text()
LONG: Final = ("cycle=20", "up=60")
# The load of other programs ends, a real slowdown stays: the last ten cycles may be measured again.
MORE_TENS: Final = 3
# Runs `python -m paddock` and records the peak memory of the process.
MEASURED: Final = """
import atexit, runpy, sys
target = sys.argv.pop(1)
def tell():
    with open("/proc/self/status") as status, open(target, "w") as file:
        file.write(next(line.split()[1] for line in status if line.startswith("VmHWM")))
atexit.register(tell)
runpy.run_module("paddock", run_name="__main__", alter_sys=True)
"""
# The mark is on the root disk, so a machine that was not recreated has it.
EXAMINE: Final = f"""
[ ! -e /root/examined ] || echo "the machine is the one before" >&2
touch /root/examined
setpriv --reuid {AGENT} --regid {AGENT} --clear-groups python3 - examine {HOME}
"""


@dataclass
class Soak:
    """What happened in the cycles so far."""

    seconds: list[float] = field(default_factory=list)
    yardsticks: list[float] = field(default_factory=list)  # seconds of a `paddock check` after each cycle
    peaks: list[int] = field(default_factory=list)  # KiB, of each `paddock cycle`
    faults: list[str] = field(default_factory=list)  # each is a loss, a leak or a slowdown
    records: int = 0
    kinds: int = 0  # of things that were counted
    used: dict[str, Sequence[Sample]] = field(default_factory=dict)  # by long processes

    def table(self) -> str:
        """Return the result as a table."""
        fastest, slowest = min(self.seconds), max(self.seconds)
        rows = [
            ("cycles", str(len(self.seconds))),
            ("records acknowledged", str(self.records)),
            ("seconds per cycle", f"{median(self.seconds):.2f} (from {fastest:.2f} to {slowest:.2f})"),
            ("peak memory of a cycle", f"{self.peaks[0] / 1024:.1f} → {self.peaks[-1] / 1024:.1f} MiB"),
        ]
        if len(self.seconds) >= 2 * TEN:
            for name, series in (("cycle", self.seconds), ("`check` beside it", self.yardsticks)):
                first, last = median(series[:TEN]), median(series[-TEN:])
                rows.append(
                    (f"{name}, ten and ten", f"{first:.2f} s at first, {last:.2f} s at last ({pace(series):.2f})")
                )
        rows += [(name, shown(samples)) for name, samples in self.used.items()]
        rows.append(("kinds of things counted", str(self.kinds)))
        rows.append(("lost, left behind, slower", "\n".join(self.faults) or "nothing"))
        return "\n".join(f"{name:36} {value}" for name, value in rows)


class Busy:
    """An agent that writes records without a pause, and what it acknowledged."""

    def __init__(self, node: Node, ledger: Ledger, port: int) -> None:
        own = node.stage.folder / "soak"
        (own / "tmp").mkdir(parents=True, exist_ok=True)
        self.node = node.with_environment(TMPDIR=str(own / "tmp"), XDG_CACHE_HOME=str(own / "cache"))
        self.ledger = ledger
        agent: dict[str, Any] = {
            "kind": "service",
            "place": "box",
            "command": ["python3", "-c", PROGRAM, "write", node.gateway, str(port)],
            "health": {"port": records.HEALTH_PORT},
            "user": {"name": AGENT, "uid": 4343},
            "state": {"size": "1G"},
            "machine": {"cores": 1, "memory": "512M", "disk": "4G"},
        }
        self.tree = {"project": "home", "places": node.file()["places"], "agents": {AGENT: agent}}
        self.path = str(node.write(f"{AGENT}.yaml", self.tree))

    def paddock(self, *words: str) -> str:
        return self.node.paddock(*words, "-f", self.path).stdout

    def cycle(self) -> tuple[float, int]:
        """Recreate the machine; return the seconds, and the peak memory in KiB."""
        target = Path(self.node.stage.environment["TMPDIR"]).parent / "peak"
        command = [sys.executable, "-c", MEASURED, str(target), "cycle", "-f", self.path]
        environment = dict(self.node.stage.environment)
        start = time.monotonic()
        done = subprocess.run(
            command, cwd=self.node.stage.folder, env=environment, capture_output=True, text=True, timeout=300
        )
        seconds = time.monotonic() - start
        assert done.returncode == 0, done.stdout + done.stderr
        return seconds, int(target.read_text())

    def yardstick(self) -> float:
        """Return the seconds of a `check`, which reads the file and nothing else."""
        start = time.monotonic()
        self.paddock("check")
        return time.monotonic() - start

    def examine(self) -> list[str]:
        """Return what is wrong with the records on a new machine."""
        acknowledged = self.ledger.last
        told = self.node.shell(self.ledger.address, f"exec 2>&1\n{EXAMINE.strip()} <<'PROGRAM'\n{PROGRAM}\nPROGRAM")
        *unexpected, last = told.splitlines()
        found = json.loads(last)
        lost = acknowledged - found["records"]
        return [
            *unexpected,
            *found["faults"],
            *([f"the last {lost} of {acknowledged} acknowledged records are lost"] if lost > 0 else []),
        ]


@contextmanager
def busy_agent(node: Node) -> Iterator[Busy]:
    """Bring the busy agent up, and remove it with its records at the end."""
    ledger = Ledger()
    with listening(ledger, node.gateway) as port:
        busy = Busy(node, ledger, port)
        try:
            busy.paddock("up")
            yield busy
        finally:
            busy.paddock("down")
            busy.paddock("forget", AGENT, "--name", AGENT)


def soak(node: Node, cycles: int, long: Sequence[str] = (), say: Callable[[str], None] = lambda line: None) -> Soak:
    """Recreate the machine of a busy agent so many times; then run the verbs of ``long`` (`up=20`), a process each."""
    found = Soak()
    with busy_agent(node) as busy:
        before = inventory(busy.node)
        found.kinds = len(before)
        for number in range(1, cycles + 1):
            _one_cycle(busy, found)
            say(f"{number}: {found.seconds[-1]:.2f} s, {busy.ledger.last} records, {len(found.faults)} faults")
        for _ in range(MORE_TENS):
            if slowdown(found.seconds, found.yardsticks):
                for _ in range(TEN):
                    _one_cycle(busy, found)
        found.faults += slowdown(found.seconds, found.yardsticks)
        for word in long:
            name = f"one process, {word}"
            found.used[name] = long_run(Path(busy.path), busy.node.stage.environment, word)
            found.faults += growth(name, found.used[name])
        if long:
            found.faults += busy.examine()
        found.faults += busy.ledger.faults + leaks_now(busy.node, before)
        found.records = busy.ledger.last
    return found


def _one_cycle(busy: Busy, found: Soak) -> None:
    writers = busy.ledger.writers
    seconds, peak = busy.cycle()
    found.seconds.append(seconds)
    found.peaks.append(peak)
    found.yardsticks.append(busy.yardstick())
    faults = busy.examine()
    if busy.ledger.writers != writers + 1:
        faults.append(f"the agent was started {busy.ledger.writers - writers} times on one machine")
    found.faults += [f"cycle {len(found.seconds)}: {fault}" for fault in faults]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100, help="number of cycles (default: %(default)s)")
    parser.add_argument(
        "--long",
        nargs="*",
        default=["cycle=20", "up=100"],
        help="verbs for one long process (default: cycle=20 up=100)",
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # otherwise the node would stay
    with stage_folder() as folder, contextlib.redirect_stdout(sys.stderr), lxc_stage(folder) as stage:
        found = soak(Node(stage), options.cycles, options.long, lambda line: print(line, file=sys.stderr, flush=True))
    print(found.table())
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
