"""A machine over ssh, by the OpenSSH client: the person's agent, config and jump hosts keep working."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock import process
from paddock.diskfull import go_on_without, is_full
from paddock.guests import Unreachable
from paddock.process import Result

_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    # A long silent command survives; a cut link is noticed.
    "ServerAliveInterval=30",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
)
_SSH_FAILED: Final = 255  # ssh's own exit code; a remote program may use it too, but none of ours does


@dataclass(frozen=True)
class SshGuest:
    """Runs programs on another machine. A known host key is insisted on; without one known_hosts decides."""

    name: str
    address: str
    user: str = "root"
    port: int = 22
    key: Path | None = None
    host_keys: tuple[str, ...] = ()
    jump: str | None = None

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        result = process.run([*self._ssh, self.address, "--", shlex.join(argv)], stdin=stdin, deadline=deadline)
        if result.code == _SSH_FAILED:
            said = (result.err.strip().splitlines() or ["-"])[-1]
            raise Unreachable(
                f"{self.name} cannot be reached over ssh at {self.address}: {said}", hint=self._hint(result.err)
            )
        return result

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        return process.attach([*self._ssh, *(["-t"] if terminal else []), self.address, "--", shlex.join(argv)])

    def forward(self, local: int, port: int) -> int:
        tunnel = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{local}:127.0.0.1:{port}"]
        return process.attach([*self._ssh, *tunnel, self.address])

    @property
    def _ssh(self) -> list[str]:
        """The command up to the address."""
        return [
            "ssh",
            *(word for option in (*_OPTIONS, *self._trust()) for word in ("-o", option)),
            *(["-i", str(self.key), "-o", "IdentitiesOnly=yes"] if self.key else []),
            *(["-J", self.jump] if self.jump else []),
            *("-p", str(self.port), "-l", self.user),
        ]

    def _hint(self, said: str) -> str:
        if "Host key verification failed" in said:
            return "is it the machine you mean? If so, put its key into host_key: or your known_hosts"
        if "bad permissions" in said:
            return f"chmod 600 {shlex.quote(str(self.key))}"
        if "Permission denied" in said:
            return f"does {self.user} let {self.key or 'your key'} in there?"
        return "is it up, and can this machine route to it?"

    def _trust(self) -> list[str]:
        if not self.host_keys:
            return ["StrictHostKeyChecking=yes"]
        # HostKeyAlias: the key belongs to the machine, whatever address it has today.
        return [
            "StrictHostKeyChecking=yes",
            f"HostKeyAlias={self.name}",
            f"UserKnownHostsFile={_known_hosts(self.name, self.host_keys)}",
            "GlobalKnownHostsFile=/dev/null",
            f"HostKeyAlgorithms={','.join(dict.fromkeys(key.split()[0] for key in self.host_keys))}",
        ]


def _known_hosts(name: str, keys: Sequence[str]) -> Path:
    """A file with these keys, named by them: made once, and nothing to clean up when a run is killed."""
    text = "".join(f"{name} {key}\n" for key in keys)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock/known_hosts"
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        return _with_text(cache / name, text)
    except OSError as error:
        if not is_full(error):
            raise
        go_on_without("the file with known ssh keys", error)
        return _with_text(Path(_short_lived().name) / name, text)


def _with_text(path: Path, text: str) -> Path:
    try:
        if path.read_text() == text:
            return path
    except (OSError, ValueError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent) as unfinished:
        (Path(unfinished) / "file").write_text(text)
        (Path(unfinished) / "file").replace(path)
    return path


@functools.cache
def _short_lived() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where a full disk does not matter; it goes with this process."""
    in_memory = [os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", None]  # noqa: S108 - made with mkdtemp
    folder = next(path for path in in_memory if path is None or os.access(path, os.W_OK | os.X_OK))
    return tempfile.TemporaryDirectory(prefix="paddock-", dir=folder)


def scan_host_key(address: str, port: int = 22, jump: str | None = None) -> str | None:
    """Return the ed25519 host key that answers at an address, or None while nothing does."""
    scan = ["ssh-keyscan", "-T", "2", "-t", "ed25519", "-p", str(port), address]
    # ssh-keyscan knows no jump hosts, so the one in between runs it.
    argv = ["ssh", *(word for option in _OPTIONS for word in ("-o", option)), jump, "--", *scan] if jump else scan
    for line in process.run(argv, deadline=20).out.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] == "ssh-ed25519":
            return " ".join(parts[1:])
    return None
