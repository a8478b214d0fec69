"""The operator's side on macOS, as far as Linux can show it: Python looks as it does there, and there is no /proc.

`tests/as_mac` takes away the names that only Linux has. Other tests run below it, and what needs Linux says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof

ROOT: Final = Path(__file__).parents[1]
WITHOUT_PROC: Final = 'mount -t tmpfs none /proc && exec "$@"'
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to hide /proc")


def on_a_mac(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as on macOS."""
    path = os.pathsep.join(str(ROOT / name) for name in ("tests/as_mac", "src"))
    command = ["unshare", "--mount", "sh", "-c", WITHOUT_PROC, "sh", sys.executable, *words]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900
    )


EVERY_MODULE: Final = """
import importlib, os, pathlib, pkgutil, platform, sys
import paddock
assert (sys.platform, platform.system(), hasattr(os, "O_NOATIME")) == ("darwin", "Darwin", False)
assert not pathlib.Path("/proc/self").exists()
names = [found.name for found in pkgutil.walk_packages(paddock.__path__, "paddock.")]
programs = {"paddock.__main__", "paddock.onboard.hermes.proof"}  # they run when they are imported
for name in names:
    if name not in programs:
        importlib.import_module(name)
print(len(names))
"""


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    done = on_a_mac("-c", EVERY_MODULE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


# plan, up and a rename against a simulated node; a real ssh client and a real sshd.
QUICK: Final = (
    "tests/cli/test_projects.py::test_up_new_creates_an_agent_beside_one_of_the_same_name",
    "tests/channels/test_shared.py::test_only_this_account_can_use_the_connection",
)
MORE: Final = (
    *("tests/cli/test_fleet.py", "tests/cli/test_projects.py", "tests/cli/test_secrets_verb.py", "tests/channels"),
    *("tests/places/test_noop.py", "tests/backups/test_folder.py"),
)
# Tests that use /proc themselves, and tests of `pct`, which runs on a node.
NOT_THERE: Final = (
    "not cache_that_cannot_be_written and not pct and not open_connection and not has_ended and not run_is_killed"
    " and not connection_that_was_begun and not have_no_connection and not connection_over_ssh"
)


@pytest.mark.parametrize("tests", [QUICK, pytest.param(MORE, marks=slow_proof)], ids=["quick", "more"])
def test_the_tests_of_the_operators_side_pass(tests: tuple[str, ...]) -> None:
    done = on_a_mac("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", NOT_THERE, *tests, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


FILE: Final = """\
project: home
places: {here: {host: {}}, server: {host: {address: 192.0.2.1}}}
agents:
  web: {kind: service, place: here, runtime: process, command: [sleep, inf], backup: {to: ./backups}}
"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("plan",), "an agent on this machine needs Linux, and this computer runs macOS"),
        (("up",), "an agent on this machine needs Linux, and this computer runs macOS"),
        (("run", "web"), "an agent on this machine needs Linux, and this computer runs macOS"),
        (("init", "--sandbox", "--yes"), "no sandbox can run here: Real containers need Linux."),
        (("init", "--host", "here", "--yes"), "an agent on this machine needs Linux, and this computer runs macOS"),
        (("sandbox", "up"), "the sandbox needs Linux, and this computer runs macOS"),
        (("schedule",), "systemd does not run on this machine, and a schedule needs it"),
        (("check",), ""),
    ],
)
def test_what_needs_linux_says_so(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    if words[0] != "init":
        (tmp_path / "paddock.yaml").write_text(FILE)
    done = on_a_mac("-m", "paddock", *words, cwd=tmp_path)
    assert (done.returncode != 0) is bool(sentence), done.stdout + done.stderr
    assert not sentence or re.search(rf"error: (--host: )?{re.escape(sentence)}.*\n hint: ", done.stderr)
    assert "Traceback" not in done.stderr
