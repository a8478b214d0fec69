"""constraints.txt: what the wheel needs, at the versions and with the hashes of requirements.lock."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.base.errors import BadInput
from paddock.kinds import packaged

ROOT: Final = Path(__file__).parents[1]
HINT: Final = "CONTRIBUTING.md has the command that writes constraints.txt"
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def listed(file: str) -> dict[str, packaged.Package]:
    return {each.name: each for each in packaged.packages((ROOT / file).read_text())}


def test_the_constraints_have_the_versions_and_hashes_of_the_lock() -> None:
    constraints, lock = listed("constraints.txt"), listed("requirements.lock")
    assert constraints
    for name, package in constraints.items():
        assert package.hashes, name
        assert (package.version, package.hashes) == (lock[name].version, lock[name].hashes), f"{name}: {HINT}"


def test_the_constraints_have_what_the_wheel_needs_and_nothing_else() -> None:
    wanted = {*needed([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["sandbox"]])}
    constraints = {name for name, each in listed("constraints.txt").items() if "win32" not in each.marker}
    assert {"httpx", "uvicorn", "h11", "pydantic-core"} <= wanted
    assert constraints == wanted, HINT


def needed(requirements: list[str]) -> Iterator[str]:
    """Yield the packages that requirements need here, by what is installed in this environment."""
    for requirement in requirements:
        name, _, marker = requirement.partition(";")
        # Extras, and what only other systems or older versions of Python need.
        if re.search(r"extra\b|Windows|win32|emscripten|python_version < |python_full_version < ", marker):
            continue
        found = re.match(r"[A-Za-z0-9._-]+", name)
        assert found
        yield packaged.normal(found[0])
        yield from needed(importlib.metadata.requires(found[0]) or [])


def test_the_documented_command_writes_both_files_in_the_same_way() -> None:
    commands = re.findall(r"`(uv pip compile [^`]*)`", (ROOT / "CONTRIBUTING.md").read_text().replace("\n", " "))
    assert [re.split(" +", each)[-1] for each in commands] == ["requirements.lock", "constraints.txt"]
    assert all("--universal" in each and "--generate-hashes" in each for each in commands)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "src/pvebox/README.md"])
def test_every_documented_install_command_names_the_constraints(page: str) -> None:
    commands = re.findall(r"^(?:uv|pipx|pip) .*\binstall\b.*$", (ROOT / page).read_text(), re.MULTILINE)
    assert commands
    assert all("constraints.txt" in each for each in commands), commands


def test_a_line_of_a_lock_that_is_no_package_is_named() -> None:
    text = "# two packages\na==1 ; sys_platform == 'win32' \\\n    --hash=sha256:" + "1" * 64 + "\n    # via b\nb==2\n"
    assert packaged.packages(text) == [
        packaged.Package("a", "1", "sys_platform == 'win32'", ("1" * 64,)),
        packaged.Package("b", "2", "", ()),
    ]
    for line in ("b>=2", "b @ https://example.org/b.whl", "-r other.txt", "    --hash=sha256:12", "b==2\x1b[31m"):
        with pytest.raises(BadInput, match="line 2 of the lock is no package with a version"):
            packaged.packages(f"a==1\n{line}\n")
