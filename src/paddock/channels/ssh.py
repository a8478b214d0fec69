"""A guest for a machine reached with the OpenSSH client.

The user's own ssh configuration applies: keys, aliases and jump hosts work. Features that would give the machine access
to something of the user's (agent, display, environment, ports, shared connections) are turned off.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.base import folders, process
from paddock.base.errors import BadInput, PaddockError, is_full, warn_not_written
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed, Pipes, Result
from paddock.base.text import one_line
from paddock.channels import Unreachable
from paddock.channels.terminal import terminal_restored

_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    # These keep a connection open during a long silent command, and notice a lost one after 90 seconds.
    "ServerAliveInterval=30",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
)
# ssh uses the first value of an option, so these come before the user's. SendEnv accumulates and is cleared at the end.
# The options are in a file, because ssh uses the file for the connection to a jump host too, but not its arguments.
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
_INTERRUPTED: Final = 130
_UNUSED_SECONDS: Final = 3600  # far longer than ssh takes to read a file after it was started
_SENT_KEY: Final = re.compile(r"key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]{43})")
_SSH_FAILED: Final = 255  # ssh's own exit code; none of Paddock's remote programs uses it


@frozen
class SshGuest:
    """Runs programs on another machine over ssh.

    With ``host_keys`` the machine must have one of them; otherwise the user's known_hosts decides.
    """

    name: str
    address: str
    user: str = "root"
    port: int = 22
    key: Path | None = None
    host_keys: tuple[str, ...] = ()
    jump: str | None = None
    control: Path | None = None  # of a connection that programs use; if it has ended, ssh connects as usual

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        command = [*self._ssh, *self._through, self.address, "--", shlex.join(argv)]
        return self._reached(process.run(command, stdin=stdin, deadline=deadline))

    @property
    def _through(self) -> list[str]:
        return ["-S", str(self.control)] if self.control else []

    def sharing(self, control: Path, argv: Sequence[str]) -> list[str]:
        """Return the command that opens a connection for other commands, for as long as a program runs."""
        return [*self._ssh, "-M", "-S", str(control), self.address, "--", shlex.join(argv)]

    def _reached(self, result: Result) -> Result:
        """Return the result of a program on the machine; an error if it is ssh that failed."""
        if result.code == _SSH_FAILED:
            reason = one_line(result.err.strip().split("\n")[-1] or "-", 500)
            if sent := _SENT_KEY.search(result.err):
                reason += f" It sent the key {sent[1]}."
            raise Unreachable(
                f"{self.name} cannot be reached over ssh at {self.address}: {reason}", hint=self._hint(result.err)
            )
        return result

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        with terminal_restored() if terminal else nullcontext():
            return process.attach([*self._ssh, *(["-t"] if terminal else []), self.address, "--", shlex.join(argv)])

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return process.stream([*self._ssh, self.address, "--", shlex.join(argv)], out, err)

    @contextmanager
    def piped(self, argv: Sequence[str]) -> Iterator[Pipes]:
        # In another session, because Ctrl-C may not be meant for this connection.
        command = [*self._ssh, *self._through, self.address, "--", shlex.join(argv)]
        with process.piped(command, own_session=True) as pipes:
            yield replace(pipes, end=lambda: self._reached(pipes.end()))

    def forward(self, local: int, port: int) -> int:
        """Open a connection that forwards nothing, then add the forwarding of this one port.

        ``-L`` has no effect on the first command, because ClearAllForwardings clears it along with the user's own.
        """
        # The folder is 0700, because the socket gives access to the connection.
        with tempfile.TemporaryDirectory(prefix="paddock-") as folder:
            control = Path(folder) / "control"
            opened = [*self._ssh, "-M", "-S", str(control), "-N", self.address]
            connecting = process.started(opened, own_session=False, stdin=process.DEVNULL)
            with connecting as connection, _ended_by_ctrl_c(connection) as pressed:
                while not control.exists():
                    if connection.poll() is not None:
                        return _INTERRUPTED if pressed.is_set() else connection.wait()
                    time.sleep(0.02)
                tunnel = f"127.0.0.1:{local}:127.0.0.1:{port}"
                request = ["ssh", "-F", "none", "-S", str(control), "-O", "forward", "-L", tunnel, self.address]
                if not process.run(request).ok and not pressed.is_set():
                    hint = "another program may be using it; `--local` chooses another port"
                    raise PaddockError(f"port {local} of this machine cannot be forwarded", hint=hint)
                code = connection.wait()
                return _INTERRUPTED if pressed.is_set() else code

    @property
    def _ssh(self) -> list[str]:
        """The ssh command up to the address."""
        return [
            *_ssh(),
            *(word for option in self._host_key_options() for word in ("-o", option)),
            *(["-i", str(self.key), "-o", "IdentitiesOnly=yes"] if self.key else []),
            *(["-J", self.jump] if self.jump else []),
            *("-p", str(self.port), "-l", self.user),
        ]

    def _hint(self, printed: str) -> str:
        if "Host key verification failed" in printed:
            return "check that this is the machine you mean; if so, put its key into host_key: or your known_hosts"
        if "bad permissions" in printed:
            return f"chmod 600 {shlex.quote(str(self.key))}"
        if "Permission denied" in printed:
            return f"check that the account {self.user} on that machine accepts {self.key or 'your key'}"
        return "check that the machine is running, and that this machine has a route to it"

    def _host_key_options(self) -> list[str]:
        if not self.host_keys:
            return ["StrictHostKeyChecking=yes"]
        # HostKeyAlias: the key is recorded for the machine's name, because its address may change.
        return [
            "StrictHostKeyChecking=yes",
            f"HostKeyAlias={self.name}",
            f"UserKnownHostsFile={_known_hosts(self.name, self.host_keys)}",
            "GlobalKnownHostsFile=/dev/null",
            f"HostKeyAlgorithms={','.join(dict.fromkeys(key.split()[0] for key in self.host_keys))}",
        ]


@contextmanager
def _ended_by_ctrl_c(connection: process.Child) -> Iterator[threading.Event]:
    """End a connection on Ctrl-C, and note it.

    An exception would not do: Python discards one that is raised while it deletes an object.
    """
    pressed = threading.Event()

    def interrupted(*_: object) -> None:
        pressed.set()
        # ssh 9.2 misses SIGTERM when it arrives between two of its waits, and then does not end.
        connection.kill()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def terminal_type() -> str:
    """Return the type of the person's terminal, which programs on a machine may know."""
    found = re.fullmatch(r"[\w.+-]+", os.environ.get("TERM", ""))
    return found[0] if found else "dumb"


def _ssh() -> list[str]:
    """Return the beginning of every ssh command: the program and the options that never vary."""
    # -k: forward no Kerberos credentials. SetEnv: ssh uses the first, so the user's own SetEnv has no effect.
    environment = f"SetEnv=TERM={terminal_type()}"
    options = (word for option in (*_OPTIONS, environment) for word in ("-o", option))
    return ["ssh", "-F", str(_cached_file("ssh_config", _CONFIGURATION)), "-k", *options]


def _known_hosts(name: str, keys: Sequence[str]) -> Path:
    return _cached_file("known_hosts", "".join(f"{name} {key}\n" for key in keys))


def _cached_file(kind: str, text: str) -> Path:
    """Return a file in the cache with this text, named by its hash, so that a killed run leaves nothing to clean up."""
    cache = cache_folder(kind)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        return write_if_changed(cache / name, text)
    except OSError as error:
        if is_full(error):
            warn_not_written(f"{cache}", error)
            return write_if_changed(Path(_memory_folder().name) / f"{kind}-{name}", text)
        hint = "set XDG_CACHE_HOME to choose another cache folder"
        raise PaddockError(f"{cache} cannot be written to: {error.strerror}", hint=hint) from None


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of cached files."""
    return folders.cache() / "paddock" / kind


def write_if_changed(path: Path, text: str) -> Path:
    """Write a file of the cache, and remove files beside it that no run has used for a while."""
    try:
        if path.read_text() == text:
            with suppress(OSError):  # the cache may be read-only
                os.utime(path)
            return path
    except (OSError, ValueError):
        pass
    folders.make_private(path.parent)
    _remove_unused(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent) as unfinished:
        (Path(unfinished) / "file").write_text(text)
        (Path(unfinished) / "file").replace(path)
    return path


def _remove_unused(folder: Path) -> None:
    """Remove files that no run has used for a while: every recreated machine has another key, and so another file."""
    for path in folder.iterdir():
        with suppress(OSError):
            if path.lstat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()  # a folder is of a run that was killed


@functools.cache
def _memory_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder in memory, for when the disk is full; it is removed when this process ends."""
    in_memory = [os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", None]  # noqa: S108 - created with mkdtemp
    folder = next(path for path in in_memory if path is None or os.access(path, os.W_OK | os.X_OK))
    return tempfile.TemporaryDirectory(prefix="paddock-", dir=folder)


def listens(address: str, seconds: float, port: int = 22) -> bool:
    """Wait some seconds until a machine accepts connections. Each attempt takes at most two seconds."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            socket.create_connection((address, port), timeout=2).close()
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)


def scan_host_key(address: str, port: int = 22, jump: str | None = None) -> str | None:
    """Return the ed25519 host key that a machine presents at an address, or None while none answers."""
    scan = ["ssh-keyscan", "-T", "2", "-t", "ed25519", "-p", str(port), address]
    # ssh-keyscan does not support jump hosts, so it is run on the jump host. Only a URL may have a port.
    argv = [*_ssh(), f"ssh://{jump}", "--", shlex.join(scan)] if jump else scan
    for line in process.run(argv, deadline=20).out.split("\n"):
        parts = line.split()
        if len(parts) == 3 and parts[1] == "ssh-ed25519":
            return " ".join(parts[1:])
    return None


_COMMENT: Final = "paddock"


def make_key(path: Path) -> None:
    """Make an ed25519 key without a passphrase at a path, and its public key beside it. Nothing is overwritten."""
    public = path.with_name(f"{path.name}.pub")
    there = next((each for each in (path, public) if each.exists() or each.is_symlink()), None)
    if there is not None:
        raise BadInput(f"{there} exists already", hint="use that key, or choose another path")
    try:
        folders.make_private(path.parent)
    except OSError as error:
        raise PaddockError(f"cannot create {path.parent}: {error.strerror}") from None
    # Before it overwrites a file, ssh-keygen asks on its input, which is empty: it never does.
    made = process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", _COMMENT, "-f", str(path.absolute())])
    if not made.ok:
        raise CommandFailed(f"making the ssh key {path}", made)
