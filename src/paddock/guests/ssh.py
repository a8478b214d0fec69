"""A machine over ssh, by the OpenSSH client.

How a machine is reached is the person's to say: their keys, aliases and jump hosts keep working. What would give
something of theirs to the machine (agent, display, environment, ports, shared connections) is off.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock import process
from paddock.diskfull import go_on_without, is_full
from paddock.errors import PaddockError
from paddock.guests import Unreachable
from paddock.guests.terminal import restored
from paddock.process import Result
from paddock.visible import one_line

_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    # A long silent command survives; a cut link is noticed.
    "ServerAliveInterval=30",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
)
# The first value of an option counts, so ours come before the person's. Only SendEnv adds up: it is cleared at the end.
# This is a file and not arguments, because ssh uses the file for the connection to a jump host too, and arguments not.
_CONFIGURATION: Final = """\
ForwardAgent no
ForwardX11 no
ForwardX11Trusted no
ClearAllForwardings yes
Tunnel no
ControlMaster no
ControlPath none
ControlPersist no
PermitLocalCommand no
RemoteCommand none
RequestTTY no
AddKeysToAgent no
UpdateHostKeys no
Include ~/.ssh/config
Include /etc/ssh/ssh_config /usr/etc/ssh/ssh_config
Host *
SendEnv -*
"""
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
            said = one_line(result.err.strip().split("\n")[-1] or "-", 500)
            raise Unreachable(
                f"{self.name} cannot be reached over ssh at {self.address}: {said}", hint=self._hint(result.err)
            )
        return result

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        with restored() if terminal else nullcontext():
            return process.attach([*self._ssh, *(["-t"] if terminal else []), self.address, "--", shlex.join(argv)])

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return process.stream([*self._ssh, self.address, "--", shlex.join(argv)], out, err)

    def forward(self, local: int, port: int) -> int:
        """Open a connection that forwards nothing, then have it forward this one port.

        The option that keeps the person's own forwardings off the connection would clear ``-L`` as well.
        """
        with tempfile.TemporaryDirectory(prefix="paddock-") as folder:  # 0700: whoever gets in can use the connection
            door = Path(folder) / "door"
            opened = [*self._ssh, "-M", "-S", str(door), "-N", self.address]
            with process.started(opened, apart=False, stdin=process.NOTHING) as connection:
                while not door.exists():
                    if connection.poll() is not None:
                        return connection.wait()
                    time.sleep(0.02)
                tunnel = f"127.0.0.1:{local}:127.0.0.1:{port}"
                told = process.run(["ssh", "-F", "none", "-S", str(door), "-O", "forward", "-L", tunnel, self.address])
                if not told.ok:
                    hint = "is something else on it? `--local` chooses another"
                    raise PaddockError(f"port {local} of this machine cannot be forwarded", hint=hint)
                try:
                    return connection.wait()
                except KeyboardInterrupt:
                    return 130

    @property
    def _ssh(self) -> list[str]:
        """The command up to the address."""
        return [
            *_ssh(),
            *(word for option in self._trust() for word in ("-o", option)),
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


def _ssh() -> list[str]:
    """The beginning of every command."""
    # -k: no Kerberos tickets either. SetEnv: the first counts, so that none of the person's does.
    terminal = re.fullmatch(r"[\w.+-]+", os.environ.get("TERM", ""))
    environment = f"SetEnv=TERM={terminal[0] if terminal else 'dumb'}"
    options = (word for option in (*_OPTIONS, environment) for word in ("-o", option))
    return ["ssh", "-F", str(_kept("ssh_config", _CONFIGURATION)), "-k", *options]


def _known_hosts(name: str, keys: Sequence[str]) -> Path:
    return _kept("known_hosts", "".join(f"{name} {key}\n" for key in keys))


def _kept(kind: str, text: str) -> Path:
    """A file with this text, named by it: made once, and nothing to clean up when a run is killed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock" / kind
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        return _with_text(cache / name, text)
    except OSError as error:
        if is_full(error):
            go_on_without(f"{cache}", error)
            return _with_text(Path(_short_lived().name) / f"{kind}-{name}", text)
        hint = "XDG_CACHE_HOME says where it is"
        raise PaddockError(f"{cache} cannot be written to: {error.strerror}", hint=hint) from None


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
    argv = [*_ssh(), jump, "--", *scan] if jump else scan
    for line in process.run(argv, deadline=20).out.split("\n"):
        parts = line.split()
        if len(parts) == 3 and parts[1] == "ssh-ed25519":
            return " ".join(parts[1:])
    return None
