"""What runs on machines comes from `paddock.onboard`: modules, scripts, and beside them a few lines with a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import paddock

SOURCE = Path(paddock.__file__).parent
# Modules with lines for a shell or for Python on a machine, and why these lines are no request and no script.
LINES = {
    "channels/pct.py": "they enter a container through the node's shell, where nothing can be sent before",
    "core/verify.py": "the Python that gets the questions of a verification",
    "core/on_machine.py": "asks for an installer, also where there is no Python",
    "kinds/hermes/checks.py": "a check of a recipe, which the agent's account runs",
    "kinds/hermes/recipe.py": "the proof of a tree of code, which runs with the Python of that tree",
    "kinds/litellm/recipe.py": "the proof of a tree of code, which runs with the Python of that tree",
    "places/host/place.py": "looks at a host before it is known whether it has Python",
    "places/proxmox/access/doctor.py": "asks a node whether root's commands are there",
    "places/proxmox/root/perform.py": "the commands that `paddock console` prints for a person too",
    "runtimes/engine/container.py": "they run an engine's program",
    "runtimes/engine/runtime.py": "it runs an engine's program with or without a terminal",
    "verbs/copies.py": "removes an account",
    "verbs/schedule.py": "runs this computer's paddock for a timer",
    "verify/confinement.py": "a check that the agent's account runs",
    "channels/onboard.py": "the loader of the program",
    "channels/sent.py": "a script",
}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return list(_modules())


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if not name.startswith("onboard/"):
            yield name, ast.parse(path.read_text())


def test_all_scripts_are_in_one_folder() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.sh")}
    assert folders == {SOURCE / "onboard/shell"}


def test_shell_stays_small() -> None:
    scripts = list(SOURCE.rglob("*.sh"))
    assert len(scripts) <= 15
    assert sum(len(path.read_text().splitlines()) for path in scripts) <= 800


def test_only_modules_of_one_package_are_sent() -> None:
    named, readers, senders = set(), set(), _senders()
    for name, tree in modules():
        text = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        named |= {each for each in text if re.fullmatch(r"paddock(\.\w+)+", each) and name in senders}
        readers |= {name for node in ast.walk(tree) if ast.unparse(node) == "inspect.getsource"}
    assert named
    assert {each for each in named if not each.startswith("paddock.onboard.")} <= {"paddock.runtimes.egress"}
    assert readers == set()


def _senders() -> set[str]:
    """The modules that name a module to be sent."""
    functions = {"source", "program", "on_demand"}
    return {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "paddock.channels.sent"
        and functions & {each.name for each in node.names}
    }


def test_other_lines_for_machines_have_a_reason() -> None:
    having = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.List | ast.Tuple)
        and any(isinstance(each, ast.Constant) and each.value == "-c" for each in node.elts)
    }
    assert having == LINES.keys()
    texts = [
        (name, node.value)
        for name, tree in modules()
        if name in LINES
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count("\n") > 40
    ]
    assert texts == [], "a text of this length is a script"
