"""Finding 4: the test of a new code tree imported third-party code as root."""

from __future__ import annotations

import io
import socket
import sys
import tarfile
from collections.abc import Iterator
from typing import Final

import pytest

from hostile.ground import Machine, as_root
from paddock.process import Result
from paddock.runtimes.machine import finish_template
from paddock.runtimes.shell import script

pytestmark = as_root

STORE: Final = "/opt/paddock/.store"
CANARY: Final = "/root/taken"
TAKE: Final = f"""
import os, sys
try:
    open({CANARY!r}, "a").write(" ".join(sys.argv) + "\\n")
except OSError:
    pass
"""


def packages(**more: str) -> bytes:
    """Return an archive as Paddock builds it, with a package that writes the canary when it is imported."""
    files = {
        "evil.py": TAKE + "def main(): pass\n",
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil-1.dist-info/entry_points.txt": "[console_scripts]\nevil = evil:main\n",
        **more,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            tar.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def install(ground: Machine, archive: bytes, *proof: str) -> Result:
    python = "/usr/bin/python3" if ground.exists("/usr/bin/python3") else sys.executable
    arguments = [STORE, "t1", "", "evil", python, *proof]
    return ground.run(script("install.sh", arguments), stdin=archive)


def test_the_test_of_a_code_tree_runs_without_privileges(ground: Machine) -> None:
    result = install(ground, packages(), "-c", "import evil, os; print(os.getuid(), os.getgroups())")
    assert not ground.exists(CANARY), "third-party code ran as root"
    assert result.ok, result.err
    assert result.out == "65534 []\n"
    assert ground.read(f"{STORE}/t1/bin/evil").startswith(f"#!{STORE}/t1/bin/python\n")


def test_a_pth_file_of_a_package_does_not_run_as_root(ground: Machine) -> None:
    """Python executes the import lines of a .pth file at every start, also for `-m compileall`."""
    result = install(ground, packages(**{"evil.pth": f"import os; exec({TAKE!r})\n"}), "-c", "import evil")
    assert not ground.exists(CANARY), f"third-party code ran as root: {ground.read(CANARY)}"
    assert result.ok, result.err


def test_the_manifest_of_a_template_runs_no_third_party_code(ground: Machine) -> None:
    assert install(ground, packages(**{"evil.pth": f"import os; exec({TAKE!r})\n"}), "-c", "pass").ok
    ground.run(["sh", "-c", "rm -f /root/taken"])
    result = ground.run(finish_template())
    assert not ground.exists(CANARY), f"third-party code ran as root: {ground.read(CANARY)}"
    assert "pip evil 1\n" in result.out


@pytest.fixture
def listener() -> Iterator[int]:
    """Listen on a loopback port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_test_of_a_code_tree_has_no_network(ground: Machine, listener: int) -> None:
    proof = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 3)"
    assert not install(ground, packages(), "-c", proof).ok, "third-party code reached the network"


def test_processes_started_by_the_test_of_a_code_tree_are_killed(ground: Machine) -> None:
    proof = "import os, subprocess as s; s.Popen(['sleep', '4321'], stdout=s.DEVNULL, stderr=s.DEVNULL)"
    assert install(ground, packages(), "-c", proof).ok
    left = ground.run(["pgrep", "-f", "sleep 4321"]).out.split()
    for pid in left:
        ground.run(["kill", pid])
    assert not left, "a process that third-party code started is still running"
