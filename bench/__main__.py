"""Run the benchmarks, print their tables and, with `--out`, write JSON and charts."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

BENCHMARKS: Final = {
    "cycle": "a recreate, against Ansible and against no tool at all (real containers and a real agent; root)",
    "noop": "an `up` with nothing to do, and `check`",
    "fleet": "`plan`, `up` and `status` with many agents",
    "backup": "a backup over ssh, against `tar | zstd` (root)",
    "sandbox": "the sandbox's own requests and containers",
}
_USAGE: Final = "\n".join(
    [
        "usage: python -m bench [--quick] [--out FOLDER]",
        "       python -m bench NAME [options]      one benchmark; NAME --help lists its options",
        "",
        "Runs every benchmark and prints its tables. The exit code is 1 if an aim is missed.",
        "",
        *(f"  {name:10}{about}" for name, about in BENCHMARKS.items()),
        "",
        "  --quick     few rounds, to see that everything runs; the figures mean little",
        "  --out       write the results as JSON, and the charts as SVG, into this folder",
    ]
)


def main(argv: Sequence[str]) -> int:
    """Run one benchmark, or all of them; return the exit code."""
    if argv and argv[0] in BENCHMARKS:
        return _run(argv[0], argv[1:])
    known = {"--quick", "--out"}
    if any(word.startswith("-") and word.partition("=")[0] not in known for word in argv):
        print(_USAGE)
        return 0 if {"--help", "-h"} & {*argv} else 2
    missed = []
    for name, about in BENCHMARKS.items():
        print(f"\n## {name}: {about}\n", flush=True)
        if run_apart([sys.executable, "-m", "bench", name, *argv]):
            missed.append(name)
    print(f"\nAims missed, or not measured, in: {', '.join(missed)}" if missed else "\nAll aims are met.")
    return int(bool(missed))


def run_apart(command: Sequence[str]) -> int:
    """Run a benchmark in a process of its own: the environment that it sets is not for the next."""
    late: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    # A signal that interrupts the start itself would leave a process that nobody knows.
    handlers = [signal.signal(number, lambda got, _: late.append(got)) for number in numbers]
    # In a process group of its own, so that one signal reaches it, also after Ctrl-C.
    with subprocess.Popen(command, process_group=0) as child:
        try:
            for number, handler in zip(numbers, handlers, strict=True):
                signal.signal(number, handler)
            if late:
                signal.raise_signal(late[0])
            return child.wait()
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise


def _run(name: str, argv: Sequence[str]) -> int:
    return int(importlib.import_module(f"bench.{name}").main(list(argv)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nodes and containers are removed
    sys.exit(main(sys.argv[1:]))
