"""Forward a port over a channel that can only run programs: one program for each connection."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import AbstractContextManager, suppress
from typing import IO, Final, Protocol

from paddock.errors import PaddockError
from paddock.process import Pipes

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
    # The person sees that the connection fails; what ssh says to one of many connections would not help.
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
