"""Run a verb again and again in one process, and print what the process uses after each run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from faults.judge import Sample
from paddock.cli.session import changing, looking
from paddock.core import converge
from paddock.core.deployment import Deployment

VERBS: dict[str, Callable[[Deployment], object]] = {"plan": converge.plan, "up": converge.up, "cycle": converge.cycle}


def long_run(file: Path, environment: Mapping[str, str], word: str) -> list[Sample]:
    """Start a process that runs a verb many times, as `up=20` says, and return what it used after each."""
    command = [sys.executable, "-m", "faults.long_run", str(file), word]
    variables = {**environment, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=file.parent, env=variables, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return [Sample(**json.loads(line)) for line in done.stdout.splitlines()]


def main(file: Path, verb: str, times: int) -> None:
    """Run a verb as its command does: each run has a journal of its own and opens its places again."""
    for _ in range(times):
        opened = looking([file], None) if verb == "plan" else changing(verb, [file], None)
        with opened as [agent]:
            VERBS[verb](agent)
        print(json.dumps(asdict(settled())), flush=True)


def settled() -> Sample:
    """Return what this process uses. The kernel counts a thread for a moment after Python has joined it."""
    end = time.monotonic() + 1
    while (sample := Sample.of("self")).threads > threading.active_count() and time.monotonic() < end:
        time.sleep(0.01)
    return sample


if __name__ == "__main__":
    chosen, _, count = sys.argv[2].partition("=")
    main(Path(sys.argv[1]), chosen, int(count))
