"""The wheel: it has every file that runs, and the three usual installers make a working command of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof
from paddock import __version__

ROOT: Final = Path(__file__).parents[1]
# An empty environment takes most of its time to compile what it gets.
QUICKLY: Final = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIPX_DEFAULT_PYTHON": sys.executable}


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program without anything of this checkout in its environment, and return what it prints."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "PADDOCK"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=kept | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def built(source: Path, folder: Path) -> Path:
    """Build the wheel of a folder."""
    # The build backend is in this environment already, so that no index is asked.
    build = ["-m", "uv", "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--offline", "--quiet"]
    run(sys.executable, *build, "--out-dir", folder, source)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_every_file_of_the_packages_and_the_examples(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = [path for package in ("paddock", "pvebox") for path in (ROOT / "src" / package).rglob("*")]
    wanted = {str(path.relative_to(ROOT / "src")) for path in sources if path.is_file() and path.suffix != ".toml"}
    wanted |= {f"paddock/{path.relative_to(ROOT)}" for path in (ROOT / "examples").rglob("*") if path.is_file()}
    missing = {name for name in wanted - names if "__pycache__" not in name}
    assert not missing
    assert {Path(name).suffix for name in wanted} >= {".py", ".sh", ".txt", ".yaml", ".typed"}


def test_the_wheel_has_neither_tests_nor_files_of_a_developer(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"paddock", "pvebox", f"paddock-{__version__}.dist-info"}


def test_the_simulated_node_is_a_package_of_its_own(tmp_path: Path) -> None:
    """It is built alone, has all of its modules, and needs no package that only Paddock names."""
    source = ROOT / "src/pvebox"
    alone = built(source, tmp_path)
    names = set(zipfile.ZipFile(alone).namelist())
    assert {f"pvebox/{path.relative_to(source)}" for path in source.rglob("*.py")} <= names
    whole, own = (tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, source))
    assert own["dependencies"] == whole["optional-dependencies"]["sandbox"]
    helped = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import pvebox; print(pvebox.__file__)",
    ]
    assert run(*helped, alone, cwd=tmp_path).startswith(str(alone))


def with_pip(wheel: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--quiet", wheel, env=QUICKLY)
    return folder / "venv/bin/paddock"


def with_uv(wheel: Path, folder: Path) -> Path:
    where = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    run(sys.executable, "-m", "uv", "tool", "install", "--quiet", "--python", sys.executable, wheel, env=where)
    return folder / "bin/paddock"


def with_pipx(wheel: Path, folder: Path) -> Path:
    # The newest pipx, in an environment of its own. Other tests use the one of Debian.
    run(sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, folder / "pipx")
    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", folder / "pipx/bin/python", "pipx")
    where = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    run(folder / "pipx/bin/pipx", "install", wheel, env=where | QUICKLY)
    return folder / "bin/paddock"


@pytest.mark.parametrize(
    "install", [with_uv, pytest.param(with_pip, marks=slow_proof), pytest.param(with_pipx, marks=slow_proof)]
)
def test_an_installed_wheel_is_a_command_that_starts_a_project(
    install: Callable[[Path, Path], Path], wheel: Path, tmp_path: Path
) -> None:
    paddock = install(wheel, tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    assert run(paddock, "--version", cwd=project) == f"{__version__}\n"
    assert "\n  up " in run(paddock, "--help", cwd=project)
    # Every script and lock that a deployment needs is read from the installed package.
    (project / "paddock.yaml").write_text((ROOT / "examples/native.yaml").read_text())
    assert "1 agent in" in run(paddock, "check", cwd=project)
    for shell in ("bash", "zsh", "fish"):
        assert "_PADDOCK_COMPLETE=complete_" + shell in run(paddock, "--show-completion", shell, cwd=project)
    words = {"_PADDOCK_COMPLETE": "complete_bash", "COMP_WORDS": "paddock che", "COMP_CWORD": "1"}
    assert run(paddock, env=words, cwd=project) == "check\n"
