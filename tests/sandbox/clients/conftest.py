"""Public clients in an environment of their own, and a sandbox with simulated containers for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.clients.installed import COLLECTION, COLLECTIONS, PACKAGES, ROOT_PASSWORD, Clients, Server, install


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """Install the clients from PyPI into a temporary folder."""
    made = install(tmp_path_factory.mktemp("clients"), *PACKAGES)
    made.pip("download", "--no-deps", "--dest", str(made.folder), COLLECTIONS)
    (wheel,) = made.folder.glob("ansible-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(COLLECTION)]
        archive.extractall(made.folder / "collections", members)
    wheel.unlink()
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve a sandbox with simulated containers, in which root has a password."""
    state = tmp_path / "state"
    command = [sys.executable, "-m", "pvebox"]
    options = ["--runtime", "memory", "--port", "0", "--state", str(state), "--delay-401", "0.2"]
    process = subprocess.Popen([*command, "serve", *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        words = ["pveum", "passwd", "root@pam", "--password", ROOT_PASSWORD]
        subprocess.run([*command, "root", "--state", str(state), "--", *words], check=True, timeout=60)
        with tarfile.open(tmp_path / "tiny.tar.gz", "w:gz"):
            pass
        yield Server(ready, tmp_path)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
