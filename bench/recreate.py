#!/usr/bin/env python3
"""Measure how long it takes to recreate a machine: from the end of `down` until health or the answer to a prompt.

Run as root, on a machine where LXC works: .venv/bin/python bench/recreate.py [--rounds N] [--agent]

Prints one JSON line with medians in seconds: phases, total and CPU time. `beyond` is the total without clone and boot,
that is, Paddock's own share. `cpu` is the CPU time of Paddock itself, `cpu_children` that of its ssh clients.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from ruamel.yaml import YAML

from paddock.demo import Stage, lxc_stage
from pvebox.stage import stage_folder

SERVICE: dict[str, Any] = {
    "kind": "service",
    "place": "box",
    "packages": ["busybox"],
    "command": ["busybox", "httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/etc"],
    "health": {"http": "http://127.0.0.1:8080/hostname"},
    "state": {"size": "1G"},
    "machine": {"cores": 2, "memory": "512M", "disk": "4G"},
}
# Runs `python -m paddock` and records the CPU time of the process and of its children.
MEASURED = """
import atexit, json, resource, runpy, sys
target = sys.argv.pop(1)
def tell():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with open(target, "w") as file:
        json.dump([each.ru_utime + each.ru_stime for each in used], file)
atexit.register(tell)
runpy.run_module("paddock", run_name="__main__", alter_sys=True)
"""
CLONE_AND_BOOT = ("cattle.clone", "cattle.start", "cattle.reach")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements (default: %(default)s)")
    parser.add_argument(
        "--agent", action="store_true", help="measure Hermes until it answers a prompt, instead of a small service"
    )
    options = parser.parse_args()
    with stage_folder() as folder, contextlib.redirect_stdout(sys.stderr), lxc_stage(folder) as stage:
        if not options.agent:
            _replace_agents(folder, {"web": SERVICE})
        _paddock(stage, "up")
        rounds = [_round(stage) for _ in range(options.rounds)]
    phases = {name: median(each["phases"].get(name, 0.0) for each in rounds) for name in rounds[0]["phases"]}
    whole = median(each["seconds"] for each in rounds)
    result = {
        "kind": "hermes" if options.agent else "service",
        "rounds": options.rounds,
        "seconds": round(whole, 2),
        "beyond": round(whole - sum(phases.get(name, 0.0) for name in CLONE_AND_BOOT), 2),
        "cpu": round(median(each["cpu"] for each in rounds), 2),
        "cpu_children": round(median(each["cpu_children"] for each in rounds), 2),
        "phases": {name: round(seconds, 2) for name, seconds in phases.items()},
    }
    print(json.dumps(result))


def _replace_agents(folder: Path, agents: dict[str, Any]) -> None:
    yaml = YAML(typ="safe")
    path = folder / "paddock.yaml"
    tree = yaml.load(path)
    tree["agents"] = agents
    yaml.dump(tree, path)


def _round(stage: Stage) -> dict[str, Any]:
    _paddock(stage, "down")
    start = time.monotonic()
    cpu, cpu_children = _paddock(stage, "up")
    seconds = time.monotonic() - start
    journal = max((Path(stage.environment["XDG_STATE_HOME"]) / "paddock/runs").glob("*-up.jsonl"))
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    return {
        "seconds": seconds,
        "cpu": cpu,
        "cpu_children": cpu_children,
        "phases": {event["id"]: event["seconds"] for event in events if event["event"] == "done"},
    }


def _paddock(stage: Stage, *words: str) -> tuple[float, float]:
    """Run a paddock command and return the CPU time of the process and of its children."""
    target = stage.folder / "used.json"
    command = [sys.executable, "-c", MEASURED, str(target), *words]
    subprocess.run(command, cwd=stage.folder, env=dict(stage.environment), stdout=sys.stderr, check=True)
    own, children = json.loads(target.read_text())
    return own, children


if __name__ == "__main__":
    main()
