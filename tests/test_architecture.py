"""Enforce which rooms may import which others, and which words they may use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import paddock
from paddock.recipes import KINDS

SOURCE = Path(paddock.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# A room may import itself, the rooms listed for it, and the top-level modules that every room may import.
EVERYONES = {"diskfull", "errors", "secret", "process", "visible", "__version__"}
ALLOWED = {
    "spec": set[str](),
    "recipes": {"spec"},
    "guests": set[str](),
    "plan": set[str](),
    "places": {"spec", "plan", "guests"},
    "runtimes": {"spec", "recipes", "guests"},
    "checks": {"spec", "recipes", "runtimes", "guests"},
    "run": {"spec", "plan", "checks", "places", "runtimes", "recipes", "guests"},
    "cli": {"spec", "recipes", "plan", "run", "runtimes", "sandbox"},
}

# "service" is also a word of systemd, of ssh and of everyone.
KIND_NAMES = "|".join(set(KINDS) - {"service"})


def imported_rooms(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                names.add(module)
                names.update(f"{module}.{alias.name}" for alias in aliases if module == "paddock")
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
    return {name.split(".")[1] for name in names if name.startswith("paddock.")}


def in_room(room: str) -> list[Path]:
    return [path for path in MODULES if path.relative_to(SOURCE).parts[0] == room]


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_it_may_import(room: str) -> None:
    for path in in_room(room):
        assert imported_rooms(path) <= ALLOWED[room] | {room} | EVERYONES, path


def test_the_sandbox_imports_no_other_room() -> None:
    assert in_room("sandbox")
    for path in in_room("sandbox"):
        assert imported_rooms(path) <= {"sandbox"}, path


def test_no_recipe_names_a_place_or_a_runtime() -> None:
    words = re.compile(r"proxmox|lxc|\bvmid\b|systemd|docker|podman|\bssh\b", re.IGNORECASE)
    for path in in_room("recipes"):
        assert not words.search(_code(path)), path


def test_no_place_guest_or_plan_names_a_kind_of_agent() -> None:
    words = re.compile(rf"{KIND_NAMES}|\.kind\b", re.IGNORECASE)
    for room in ("places", "guests", "plan"):
        for path in in_room(room):
            assert not words.search(_code(path)), path


def test_the_spec_does_not_name_any_kind_of_agent() -> None:
    for path in in_room("spec"):
        assert not re.search(KIND_NAMES, path.read_text(), re.IGNORECASE), path


def test_only_the_gates_start_processes() -> None:
    starters = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if re.search(r"\bimport subprocess\b|\bos\.(system|exec|spawn|popen)", path.read_text())
        and path.relative_to(SOURCE).parts[0] != "sandbox"
    }
    # The supervisor's children outlive a call, and the demo types on a terminal like a user. The others run on the
    # agent's machine: the programs of verify, and the test of a code tree.
    elsewhere = {"checks/machine/output.py", "checks/inside.py", "recipes/hermes/proof.py"}
    assert starters == {"process.py", "runtimes/process/supervise.py", "demo.py", *elsewhere}


def test_only_the_http_gate_imports_httpx() -> None:
    users = {str(path.relative_to(SOURCE)) for path in MODULES if re.search(r"\bhttpx\b", path.read_text())}
    assert users == {"places/proxmox/client.py"}


def _code(path: Path) -> str:
    """Return the module's source without comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)
