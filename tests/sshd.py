"""A real sshd on the loopback interface, for tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from pvebox.cluster.fixture import DEFAULT_TEMPLATE
from pvebox.runtime.base import cache_directory, ensure_base

SSHD = Path("/usr/sbin/sshd")
CACHE = cache_directory()

START = """
set -e
mount -t tmpfs none /run
mkdir /run/sshd
cat /etc/passwd - >"$1/passwd" <<'END'
sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin
END
mount --bind "$1/passwd" /etc/passwd
shift
exec "$@"
"""


@dataclass(frozen=True)
class Sshd:
    """A running sshd. Root can log in with the key that it was given."""

    port: int
    key: str
    pid: int

    def cut_connections(self) -> int:
        """Kill the processes that serve connections, and return their number."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return len(found)


@contextmanager
def sshd(folder: Path, public_key: Path, settings: str) -> Iterator[Sshd]:
    """Start an sshd with its files in a folder."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to start an sshd")
    program = _program(folder)
    port = free_port()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host")], check=True)
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {public_key}\n"
        f"StrictModes no\nUsePAM no\n{settings}"
    )
    inside = ["unshare", "--mount", "sh", "-c", START, "sh", str(folder)]
    command = [*inside, str(program[0]), "-D", "-e", "-r", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env={**os.environ, **program[1]}, stderr=log, stdout=log)
        try:
            _wait_for(port, folder / "log")
            yield Sshd(port, " ".join((folder / "host.pub").read_text().split()[:2]), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def _program(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return this machine's sshd, or else the one in the sandbox's base template."""
    if SSHD.exists():
        return SSHD, {}
    wanted = ["--wildcards", "./usr/sbin/sshd", "./usr/lib/*/libwrap.so*"]
    subprocess.run(["tar", "--zstd", "-xf", str(base_archive()), "-C", str(folder), *wanted], check=True)
    libraries = next(folder.glob("usr/lib/*/libwrap.so.0")).parent
    return folder / "usr/sbin/sshd", {"LD_LIBRARY_PATH": str(libraries)}


def base_archive() -> Path:
    """Return the archive of the base template, which all tests on this machine share."""
    found = next((path for path in CACHE.glob(f"base-*/{DEFAULT_TEMPLATE}")), None)
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(CACHE.parent)}):  # a test may have a cache of its own
        return found or ensure_base(DEFAULT_TEMPLATE)


def _wait_for(port: int, log: Path) -> None:
    for _ in range(100):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    pytest.fail(f"sshd does not answer: {log.read_text()}")


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
