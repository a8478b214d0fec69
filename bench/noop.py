"""Measure `check`, and `up`, `plan` and `status` with nothing to do.

Run: python -m bench noop. As root, where LXC works, it also measures an agent in a real container of the sandbox.

`check` is compared with a process that uses pydantic and ruamel.yaml once. The aim was 1.5 times a process that only
imports them; that ratio is printed too, and no limit is on it: the import of the class of models alone reaches it.
Runs of all processes alternate, so that other load on the machine affects all. They use compiled bytecode, as an
installed Paddock does.
The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.figures import Aim

ROOT: Final = Path(__file__).resolve().parent.parent
EXAMPLE: Final = ROOT / "examples" / "pet-and-cattle.yaml"
CHECK_LIMIT: Final = 1.5  # CPU time of `check`, as a multiple of that of the libraries
UP_LIMIT: Final = 0.8  # seconds of an `up` with nothing to do, on a machine that does nothing else
UP_ABOVE_PLAN: Final = 0.05  # seconds
STATUS_LIMIT: Final = 0.6  # seconds
QUIET: Final = 0.5  # the load up to which a machine counts as such
VERBS: Final = ("up", "plan", "status")

# Both libraries import most of their modules when they are used first: `import pydantic` alone loads no model.
LIBRARIES: Final = """
from pydantic import BaseModel
from ruamel.yaml import YAML
class Model(BaseModel):
    key: str
Model.model_validate(YAML(typ="safe", pure=True).load("key: value"))
"""
IMPORTS: Final = "import pydantic, ruamel.yaml"
MODELS: Final = "from pydantic import BaseModel; from ruamel.yaml import YAML"
# Runs `paddock` as its installed program does, and records the CPU time of the programs that it started.
PADDOCK: Final = """
import atexit, resource, sys
record = sys.argv.pop(1)
def tell():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(record, "w") as file:
        file.write(str(used.ru_utime + used.ru_stime))
atexit.register(tell)
from paddock.__main__ import main
main()
"""


@dataclass(frozen=True)
class Row:
    """The medians of one command, in seconds."""

    what: str
    wall: float
    cpu: float  # of the process itself
    children: float  # CPU time of the programs that it started: ssh


def main(argv: Sequence[str]) -> int:
    """Measure, print the tables and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench noop", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that everything runs")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the results as JSON into it")
    options = parser.parse_args(argv)
    rounds = 3 if options.quick else 15
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        rows = check_rows(Path(folder), rounds)
        imports, models, libraries, check = (row.cpu for row in rows)
        aims = [Aim("CPU time of check, against both libraries in use", check / libraries, CHECK_LIMIT)]
        found = lxc_rows(Path(folder), rounds)
    load = os.getloadavg()[0]
    if found:
        rows += found
        up, plan, status = (row.wall for row in found)
        aims.append(Aim("seconds of an up with nothing to do", up, UP_LIMIT))
        aims.append(Aim("seconds that it takes longer than a plan", up - plan, UP_ABOVE_PLAN))
        aims.append(Aim("seconds of a status", status, STATUS_LIMIT))
    print(table(rows, aims, load))
    print(
        f"Against `{IMPORTS}`: check {check / imports:.2f}, the class of models alone {models / imports:.2f}; no limit."
    )
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        data = {
            "load": load,
            "rounds": rounds,
            "rows": [asdict(row) for row in rows],
            "aims": [aim.as_data() for aim in aims],
        }
        (options.out / "noop.json").write_text(json.dumps(data, indent=2) + "\n")
    return int(not all(aim.met for aim in aims))


def table(rows: Sequence[Row], aims: Sequence[Aim], load: float) -> str:
    """Return the rows and the aims as text."""
    lines = [f"{'seconds, median':60}{'wall':>8}{'CPU':>8}{'ssh':>8}"]
    lines += [f"{row.what:60}{row.wall:8.3f}{row.cpu:8.3f}{row.children:8.3f}" for row in rows]
    lines += ["", *map(str, aims)]
    if load > QUIET:
        lines.append(
            f"The load of this machine is {load:.1f}: with more than {QUIET:g}, times on the clock mean little."
        )
    return "\n".join(lines)


def check_rows(folder: Path, rounds: int) -> list[Row]:
    """Measure the imports, the class of models, the libraries in use and `check`, in this order and in turns."""
    environment = with_bytecode(os.environ, folder)
    commands = {
        IMPORTS: [sys.executable, "-c", IMPORTS],
        MODELS: [sys.executable, "-c", MODELS],
        "both in use: one model, one line of YAML": [sys.executable, "-c", LIBRARIES],
        f"paddock check -f {EXAMPLE.name}": paddock(folder, "check", "-f", str(EXAMPLE)),
    }
    return in_turns(commands, rounds, folder, environment)


def lxc_rows(folder: Path, rounds: int) -> list[Row]:
    """Measure verbs with nothing to do on the sandbox with real containers; empty where that cannot run."""
    from pvebox import unable_to_run

    if reason := unable_to_run():
        print(f"{reason} A real container is not measured.", file=sys.stderr)
        return []
    with lxc_agent() as (place, environment):
        commands = {f"paddock {verb}, with nothing to do": paddock(folder, verb) for verb in VERBS}
        return in_turns(commands, rounds, place, with_bytecode(environment, folder))


@contextlib.contextmanager
def lxc_agent() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Bring a real Hermes up in a real container. Yields the folder of its file, and the environment for `paddock`."""
    from paddock.demo import lxc_stage
    from pvebox.standins.stage import stage_folder

    with stage_folder() as folder, contextlib.ExitStack() as stack:
        with contextlib.redirect_stdout(sys.stderr):
            stage = stack.enter_context(lxc_stage(folder))
            stage.paddock("up")
        yield stage.folder, stage.environment


def paddock(folder: Path, *words: str) -> list[str]:
    """Return the argv of a `paddock` command that records its CPU time."""
    return [sys.executable, "-c", PADDOCK, str(folder / "children"), *words]


def with_bytecode(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of processes that find compiled bytecode after their first run."""
    source = os.pathsep.join(filter(None, (str(ROOT / "src"), environment.get("PYTHONPATH"))))
    own = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": source}
    return {**environment, **own, "PYTHONDONTWRITEBYTECODE": ""}


def in_turns(
    commands: Mapping[str, Sequence[str]], rounds: int, where: Path, environment: Mapping[str, str]
) -> list[Row]:
    """Run the commands in turns, once before the measured rounds; return their medians."""
    times: dict[str, list[tuple[float, float, float]]] = {what: [] for what in commands}
    for _ in range(rounds + 1):
        for what, argv in commands.items():
            times[what].append(measured(argv, where, environment))
    return [Row(what, *(median(each) for each in zip(*found[1:], strict=True))) for what, found in times.items()]


def measured(argv: Sequence[str], where: Path, environment: Mapping[str, str]) -> tuple[float, float, float]:
    """Run a command; return its seconds, its CPU time, and the CPU time of its children if it recorded that."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        process = subprocess.Popen(argv, cwd=where, env=dict(environment), stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(argv[3:])} ended with {process.returncode}: {said.read()}")
    children = float(Path(argv[3]).read_text()) if len(argv) > 3 else 0.0
    # The kernel counts the children of a process that it has waited for with the process.
    return wall, used.ru_utime + used.ru_stime - children, children


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
