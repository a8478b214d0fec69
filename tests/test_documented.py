"""The commands of the README that need no node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof
from paddock.kinds import packaged
from shell_doc import ROOT, Shell, blocks, run_stage

UV: Final = (sys.executable, "-m", "uv")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell with uv, pip and pipx, a wheel in dist, and two virtual environments: .venv, and the one of pip."""
    build = ["build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--offline", "--quiet"]
    subprocess.run([*UV, *build, "--out-dir", str(tmp_path / "dist"), str(ROOT)], check=True, timeout=120)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / ".venv")], check=True)
    programs = [*UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "programs")]
    subprocess.run(programs, check=True)
    install = [*UV, "pip", "install", "--quiet", "--python", str(tmp_path / "programs/bin/python"), "pipx", "uv"]
    subprocess.run(install, check=True)
    own = {
        "PATH": f"{tmp_path}/venv/bin:{tmp_path}/programs/bin:{os.environ['PATH']}",
        "PIP_NO_COMPILE": "1",
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "uv/bin"),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "pipx/bin"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return Shell(tmp_path, kept | own)


@slow_proof  # each installer takes many seconds
def test_the_install_commands_of_the_readme_work(shell: Shell) -> None:
    run_stage("install", shell)
    for folder in ("uv/bin", "pipx/bin", "venv/bin", ".venv/bin"):
        for program in ("paddock", "pvebox"):
            assert (shell.folder / folder / program).exists(), folder
    listed = {each.name: each.version for each in packaged.packages((ROOT / "constraints.txt").read_text())}
    for python in ("uv/paddock", "pipx/venvs/paddock", "venv", ".venv"):
        frozen = [*UV, "pip", "freeze", "--python", str(shell.folder / python)]
        there = subprocess.run(frozen, check=True, capture_output=True, text=True).stdout.splitlines()
        packages = dict(each.split("==") for each in there if "==" in each)
        for tool in ("pip", "setuptools"):  # of the environment itself
            packages.pop(tool, None)
        assert packages.items() <= listed.items(), python
        assert {"httpx", "h11"} <= packages.keys(), python


@slow_proof
def test_install_commands_refuse_another_hash_except_the_one_that_says_so(shell: Shell) -> None:
    constraints = shell.folder / "constraints.txt"
    of_h11 = re.compile(r"(?<=^h11==0\.16\.0) \\\n(?:    --hash=.*\n)+", re.MULTILINE)
    changed, found = of_h11.subn(f" --hash=sha256:{'0' * 64}\n", constraints.read_text())
    assert found == 1
    constraints.write_text(changed)
    (block,) = (each for each in blocks("README.md") if each.name == "Install 1")
    commands = [command for command, _ in block.commands()]
    assert len(commands) == 4
    for command in commands:
        code, _, printed = shell.run(command)
        unchecked = "compares no hashes" in command
        assert (code == 0) is unchecked, f"{command}: {printed}"
        assert unchecked or "0" * 64 in "".join(printed), printed
