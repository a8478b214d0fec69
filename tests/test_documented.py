"""The commands of the README that need no node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from levels import slow_proof
from shell_doc import ROOT, Shell, run_stage


@slow_proof  # pip and pipx take a minute each
def test_the_install_commands_of_the_readme_work(tmp_path: Path) -> None:
    uv = [sys.executable, "-m", "uv"]
    build = ["build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--offline", "--quiet"]
    subprocess.run([*uv, *build, "--out-dir", str(tmp_path / "dist"), str(ROOT)], check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    subprocess.run(
        [*uv, "pip", "install", "-q", "--python", str(tmp_path / "venv/bin/python"), "pipx", "uv"], check=True
    )
    own = {
        "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}",
        "PIP_NO_COMPILE": "1",
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "uv/bin"),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "pipx/bin"),
    }
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    run_stage("install", Shell(tmp_path, kept | own))
    for program in ("uv/bin/paddock", "pipx/bin/paddock", "venv/bin/paddock", "uv/bin/pvebox"):
        assert (tmp_path / program).exists()
