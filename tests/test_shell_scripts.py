"""shellcheck checks every shell script of the checkout, and few modules name the scripts of machines."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
LEFT_OUT = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__", "dist"}


def shell_scripts() -> set[str]:
    """All files of the checkout that a shell runs, by their names or their first lines."""
    found = set()
    for folder, below, names in os.walk(CHECKOUT):
        below[:] = [name for name in below if name not in LEFT_OUT]
        for path in (Path(folder) / name for name in names):
            if path.is_file() and is_shell(path):
                found.add(str(path.relative_to(CHECKOUT)))
    return found


def is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(200)
    return path.suffix in {".sh", ".bash"} or bool(re.match(rb"#!.*\b(ba|da)?sh\b", first))


def checked(tmp_path: Path) -> set[str]:
    """The files that ./test gives to shellcheck, and the libraries that these source."""
    program, log = tmp_path / "shellcheck", tmp_path / "arguments"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{log}\n')
    program.chmod(0o755)
    subprocess.run([CHECKOUT / "scripts/lint-shell", program], check=True)
    todo = [name for name in log.read_text().splitlines() if not name.startswith("-")]
    found = set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            sourced = re.findall(r"^\. \./(\S+)$", (CHECKOUT / name).read_text(), re.MULTILINE)
            todo += [f"src/paddock/onboard/shell/{library}" for library in sourced]
    return found


def test_shellcheck_checks_every_shell_script_of_the_checkout(tmp_path: Path) -> None:
    scripts = shell_scripts()
    assert {"test", "demo", "scripts/bootstrap.sh", "src/paddock/onboard/shell/packages.sh"} <= scripts
    assert scripts - checked(tmp_path) == set()


def test_only_runtimes_and_two_modules_of_places_name_scripts() -> None:
    source = CHECKOUT / "src/paddock"
    named = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"(?<!/)[\"'/]\w+\.sh[\"']", path.read_text())  # not the host of a URL
    }
    places = {"places/proxmox/machine/reach.py", "places/host/survey.py"}
    assert {name for name in named if not name.startswith("runtimes/")} == places


def test_the_tests_run_shellcheck() -> None:
    assert re.search(r"^ *start shellcheck scripts/lint-shell ", (CHECKOUT / "test").read_text(), re.MULTILINE)
    assert re.search(r"^ *report shellcheck$", (CHECKOUT / "test").read_text(), re.MULTILINE)
