"""Check a code tree before it is used; run by the tree's own Python: proof.py VERSION MODULE...

``hermes --version`` is not used, because it asks the package index for a newer version.
"""

import importlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main(version: str, modules: list[str]) -> None:
    found = importlib.metadata.distribution("hermes-agent")
    must(found.version == version, f"it has hermes-agent {found.version}, not {version}")
    programs = found.entry_points.select(group="console_scripts", name="hermes")
    must(all(callable(entry.load()) for entry in programs), "its program cannot be called")
    program = Path(sys.executable).with_name("hermes")
    must(os.access(program, os.X_OK), f"there is no {program}")
    for module in modules:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in ("cron", "logs", "memories", "sessions"):
            (home / name).mkdir()
        for command, subcommand in (("gateway", "run"), ("config", "set")):
            shown = hermes(home, command, "--help")
            must(shown.returncode == 0 and subcommand in shown.stdout, f"{command} --help failed: {shown.stderr}")
        refused = hermes(home, "config", "set", "model.default", "x")
        must("managed by paddock" in refused.stderr, f"config set is not refused: {refused.stdout}{refused.stderr}")
        must(not (home / "config.yaml").exists(), "config set is refused but writes a file")


def hermes(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HOME": str(home), "HERMES_HOME": str(home), "HERMES_MANAGED": "paddock"}
    argv = [sys.executable, "-B", "-m", "hermes_cli.main", *words]
    return subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def must(holds: bool, sentence: str) -> None:
    if not holds:
        sys.exit(f"the code tree is not usable: {sentence}")


main(sys.argv[1], sys.argv[2:])
