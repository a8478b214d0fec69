"""What a start of the command line costs: the modules that it imports, and the CPU time of `check`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from paddock import cli

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/pet-and-cattle.yaml"
# The aim is 1.5, which `python -m bench noop` measures with more rounds. Other tests run at the same time.
MARGIN = 0.35
MODULES = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from paddock.__main__ import main
main()
"""


def modules_of(*words: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    command = [sys.executable, "-c", MODULES, *words]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=True)
    return {*json.loads(said.stderr.splitlines()[-1])}


def test_check_imports_only_what_it_needs() -> None:
    found = modules_of("check", "-f", str(EXAMPLE))
    own = {name for name in found if name.startswith("paddock")}
    rooms = {name.split(".")[1] for name in own if name.count(".")}
    assert "paddock.kinds.hermes.recipe" in own, "the test does not find the modules"
    assert not rooms & {"run", "places", "plan", "guests", "runtimes", "checks", "backups", "stream", "imports"}
    assert {name for name in own if name.startswith("paddock.cli.")} == {"paddock.cli.check", "paddock.cli.options"}
    assert not {"paddock.kinds.workload", "paddock.kinds.litellm", "paddock.kinds.service"} & own
    assert not {"httpx", "rich", "ssl", "asyncio", "importlib.metadata", "click", "pygments"} & found
    assert len(own) <= 70
    assert len(found) <= 400


def test_a_verb_with_a_place_imports_no_command_of_httpx() -> None:
    command = [
        sys.executable,
        "-c",
        "import paddock.__main__ as m; m.start_fast(); import httpx, sys; print(*sys.modules)",
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert "httpx" in found
    assert not {"rich", "pygments"} & {*found}


def test_an_up_with_nothing_to_do_imports_nothing_that_only_builds_need() -> None:
    program = "import sys, paddock.core.converge, paddock.core.on_machine; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert "paddock.runtimes.code.tree" in found
    assert not {"tomllib", "paddock.runtimes.code.sources"} & {*found}


def test_every_verb_is_in_the_module_that_is_imported_for_it() -> None:
    cli.import_verbs()
    group: Any = typer.main.get_command(cli.app)
    assert len(group.commands) > 25
    for name, command in group.commands.items():
        for each in getattr(command, "commands", {name: command}).values():
            assert each.callback.__module__ == f"paddock.cli.{cli._ELSEWHERE.get(name, name)}", name


@pytest.mark.parametrize("words", [("--help",), ("upp",)])
def test_without_a_known_verb_all_verbs_are_offered(words: tuple[str, ...]) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "paddock", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert "rollback" in said.stdout or "Did you mean 'up'" in said.stderr


def test_check_needs_little_more_cpu_time_than_its_libraries(tmp_path: Path) -> None:
    noop = _benchmark()
    environment = noop.with_bytecode(os.environ, tmp_path)
    commands = {
        "libraries": [sys.executable, "-c", noop.LIBRARIES],
        "check": noop.paddock(tmp_path, "check", "-f", str(EXAMPLE)),
    }
    rows = noop.in_turns(commands, 5, tmp_path, environment)
    libraries, check = (row.cpu for row in rows)
    assert check / libraries <= noop.CHECK_LIMIT + MARGIN, f"{check:.3f} s against {libraries:.3f} s"


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noop", ROOT / "bench/noop.py")
    assert spec
    assert spec.loader
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
