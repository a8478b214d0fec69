"""Look at one agent and print facts about it. Runs on the machine, as the user who manages it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paddock.checks.machine.files import text
from paddock.checks.machine.isolation import isolation
from paddock.checks.machine.leaks import leaks
from paddock.checks.machine.output import MOST, Output
from paddock.checks.machine.ports import company, listening, ports
from paddock.checks.machine.processes import agents_own
from paddock.checks.machine.shipped import code, configuration
from paddock.checks.machine.state import lease, state

NO_SUCH_PROGRAM = 127
Json = dict[str, Any]


def main() -> None:
    """Read the question from stdin and print the facts. Each look runs in a thread of its own."""
    question = json.load(sys.stdin)
    os.nice(5)  # the agent answers a prompt at the same time, and has priority
    running, dropped = supervised(question["supervisor"])
    if question.get("only_running") and not runs(question["processes"], running):
        return  # another program that listens on the agent's port must not be asked with its key
    started = [running[name]["pid"] for name in question["processes"] if running.get(name, {}).get("pid")]
    pids = agents_own(started)
    since = next((running[name]["since"] for name in question["processes"] if name in running), 0.0)
    looks: dict[str, Callable[[], Any]] = {
        "inside": lambda: inside(question["inside"], since),
        "state": lambda: state(question["folders"]),
        "lease": lambda: lease(question["lease_file"], question["holder_file"]),
        "ports": lambda: ports(question["ports"], pids, alone=question["alone"]),
    }
    if question["all"]:
        looks["configuration"] = lambda: configuration(question["etc"], question["files"])
        looks["code"] = lambda: code(question["tree"])
        looks["isolation"] = lambda: {str(pid): isolation(pid) for pid in pids}
        looks["listening"] = lambda: listening(pids, alone=question["alone"])
        looks["memory"] = memory
        looks["company"] = lambda: company(pids, alone=question["alone"]) if question["own_machine"] else []
        looks["leaks"] = lambda: leaks(question["env_files"], question["search"], question["skip"], question["logs"])
    with ThreadPoolExecutor(max_workers=len(looks)) as pool:
        running_looks = {name: pool.submit(timed, look) for name, look in looks.items()}
    found = {name: look.result() for name, look in running_looks.items()}
    about = {"processes": running, "dropped": dropped, "now": time.time(), "uid": os.geteuid()}
    print(json.dumps({**about, **found}))


def runs(names: list[str], running: dict[str, Json]) -> bool:
    """Whether all of the agent's processes are running."""
    return all(running.get(name, {}).get("state") == "active" for name in names)


def timed(look: Callable[[], Any]) -> Json:
    start = time.monotonic()
    try:
        found: Json = {"found": look()}
    except OSError as error:  # a file or process disappeared, or this account may not read it
        found = {"refused": str(error)}
    return {**found, "seconds": time.monotonic() - start}


def supervised(argv: list[str]) -> tuple[dict[str, Json], list[str]]:
    """Return the agent's processes and the dropped kinds of isolation, both from the runtime's report."""
    found: dict[str, Json] = {}
    dropped: list[str] = []
    for record in Output(argv).out.decode(errors="replace").split("\0"):
        name, _, value = record.partition("=")
        if name == "dropped":
            dropped.append(value)
        elif name == "container.pid" and "container" in found:
            found["container"]["pid"] = int(value)
        elif name.startswith("process."):
            state, pid, restarts, since = value.split()
            found[name[len("process.") :]] = {
                "state": state,
                "pid": int(pid),
                "restarts": int(restarts),
                "since": float(since),
            }
    return found, dropped


def memory() -> int:
    """Return the memory of the machine in bytes, as its programs see it."""
    total = re.search(r"^MemTotal: *(\d+) kB$", text("/proc/meminfo"), re.MULTILINE)
    return int(total[1]) << 10 if total else 0


def inside(question: Json, since: float) -> Json:
    """Run the program beside the agent, and return what it printed. ``since`` is the start of its first process."""
    questions = [{**each, "since": since} for each in question["questions"]]
    done = Output([*question["argv"], question["program"]], json.dumps(questions).encode())
    if done.cut:
        return {"refused": f"its output was longer than {MOST >> 20} MiB and was cut off"}
    try:
        return dict(json.loads(done.out))
    except (ValueError, TypeError, RecursionError):  # the program runs as the agent, which can make it print anything
        said = (done.err or done.out).decode(errors="replace").strip()
        return {"missing" if done.code == NO_SUCH_PROGRAM else "refused": f"code {done.code}: {said[-500:]}"}
