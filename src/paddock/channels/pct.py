"""A guest for a container of a Proxmox node, entered with `pct exec` as root of the node."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, Protocol

from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import Pipes, Result
from paddock.base.text import one_line
from paddock.channels import Unreachable
from paddock.channels.ssh import SshGuest, terminal_type

_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key.pub"
# Runs in the container. The number may belong to another container by now, so the container shows its host key first.
_ENTER: Final = f"""\
read -r _ key _ <{_HOST_KEY}
case ,$1, in *",$key,"*) ;; *) echo "paddock: this container has another ssh host key" >&2; exit 254 ;; esac
shift
cd && exec "$@"
"""
_OTHER_MACHINE: Final = 254
# Runs on the node. pct fails with 255, and so does ssh if it cannot connect.
_EXEC: Final = 'pct exec "$@"; code=$?; [ "$code" -ne 255 ] || exit 253; exit "$code"'
_PCT_FAILED: Final = 253
_READ_KEY: Final = f"systemctl is-active --quiet basic.target && cat {_HOST_KEY}"
_ENVIRONMENT: Final = (
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    "SHELL=/bin/bash",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)


@frozen
class PctGuest:
    """Runs programs as root in a container, which must have one of the host keys."""

    name: str
    node: SshGuest
    vmid: int
    host_keys: tuple[str, ...]  # without the type

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return self._reached(self.node.run(self._watched(argv), stdin=stdin, deadline=deadline))

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        # lxc-attach gives the program a new terminal if it has a terminal itself.
        return self.node.attach(self._inside(argv), terminal=terminal)

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return self.node.stream(self._inside(argv), out, err)

    @contextmanager
    def piped(self, argv: Sequence[str]) -> Iterator[Pipes]:
        with self.node.piped(self._watched(argv)) as pipes:
            yield replace(pipes, end=lambda: self._reached(pipes.end()))

    def forward(self, local: int, port: int) -> int:
        return forward_each(self, local, port)

    def _inside(self, argv: Sequence[str]) -> list[str]:
        environment = (*_ENVIRONMENT, f"TERM={terminal_type()}")
        enter = ["env", "-i", *environment, "sh", "-c", _ENTER, "sh", ",".join(self.host_keys)]
        return ["pct", "exec", str(self.vmid), "--", *enter, *argv]

    def _watched(self, argv: Sequence[str]) -> list[str]:
        return ["sh", "-c", _EXEC, "sh", *self._inside(argv)[2:]]

    def _reached(self, result: Result) -> Result:
        reason = one_line(result.err.strip().split("\n")[-1] or "-", 500)
        if result.code == _PCT_FAILED:
            raise Unreachable(
                f"{self.name} cannot be reached with `pct exec {self.vmid}` on {self.node.name}: {reason}",
                hint="check that the container is running",
            )
        if result.code == _OTHER_MACHINE and reason.startswith("paddock: "):
            raise Unreachable(
                f"container {self.vmid} on {self.node.name} is not the machine of {self.name}:"
                " it has another ssh host key than the recorded one",
                hint="another container may have its number by now; `paddock status` looks again",
            )
        return result


def read_host_key(node: SshGuest, vmid: int) -> str | None:
    """Return the ed25519 host key of a container as the node's root reads it, or None until it has started."""
    command = ["pct", "exec", str(vmid), "--", "sh", "-c", _READ_KEY]
    printed = node.run(["sh", "-c", '"$@" || exit 1', "sh", *command], deadline=20)
    return " ".join(printed.out.split()[:2]) or None if printed.ok else None


_CHUNK: Final = 1 << 16
_INTERRUPTED: Final = 130
# Runs on the machine: it connects its input and output with a port of the machine's loopback.
_CONNECT: Final = """
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def up():
    for data in iter(lambda: os.read(0, 65536), b""):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
out = os.fdopen(1, "wb", 0)
for data in iter(lambda: there.recv(65536), b""):
    while data:
        data = data[out.write(data):]
"""


class Runner(Protocol):
    """The part of a guest that is needed here."""

    @property
    def name(self) -> str: ...

    def piped(self, argv: list[str], /) -> AbstractContextManager[Pipes]: ...


def forward_each(guest: Runner, local: int, port: int) -> int:
    """Forward a local port to a loopback port of the machine until Ctrl-C, and return the exit code."""
    try:
        listener = socket.create_server(("127.0.0.1", local))
    except OSError as error:
        hint = "another program may be using it; `--local` chooses another port"
        raise PaddockError(f"port {local} of this machine cannot be forwarded: {error.strerror}", hint=hint) from None
    with listener:
        try:
            while True:
                here, _ = listener.accept()
                threading.Thread(target=_connected, args=(guest, here, port), daemon=True).start()
        except KeyboardInterrupt:
            return _INTERRUPTED


def _connected(guest: Runner, here: socket.socket, port: int) -> None:
    """Copy between one connection and a program on the machine until both directions have ended."""
    # The person sees that the connection fails; the error of ssh for one of many connections would not help.
    program = ["python3", "-I", "-c", _CONNECT, str(port)]
    with here, suppress(OSError, ValueError, PaddockError), guest.piped(program) as pipes:
        threading.Thread(target=_send, args=(here, pipes.sink), daemon=True).start()
        while data := os.read(pipes.source.fileno(), _CHUNK):
            here.sendall(data)
        # Closing it would not be enough while the thread waits for data of it.
        here.shutdown(socket.SHUT_RDWR)


def _send(here: socket.socket, sink: IO[bytes]) -> None:
    with suppress(OSError, ValueError):
        while data := here.recv(_CHUNK):
            sink.write(data)
            sink.flush()
        sink.close()
