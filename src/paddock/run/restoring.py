"""What a restore does on the agent's machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Final

from paddock.guests import Guest, expect
from paddock.process import CommandFailed, Pipes
from paddock.run.incoming import SPARE
from paddock.run.resolve import Located
from paddock.runtimes import machine
from paddock.runtimes.program import program

_MODULES: Final = ("layout", "folders", "reading", "receive", "restoration")
_BLOCK: Final = 1 << 20


def receive_state(agent: Located, guest: Guest) -> None:
    """Unpack what is to become the agent's state beside it, and verify it there."""
    incoming = agent.incoming
    if incoming is None:
        raise TypeError(f"{agent.name} receives nothing")
    mounted = agent.place.traits.mounts_state
    claim = machine.claim_for_restore(agent.id, agent.paths, mounted=mounted)
    expect(guest, f"claiming the state of {agent.name}", claim)
    user = agent.spec.user
    order = {
        "do": "receive",
        "state": agent.paths.state,
        "user": user.name,
        "uid": user.uid,
        "gid": user.gid or user.uid,
        "limit": incoming.size + SPARE,
        "needed": incoming.length or incoming.size,
        "of": dict(incoming.of),
    }
    progress = agent.reporter.progress(lambda: incoming.length or incoming.size)
    with incoming.open() as stream, guest.piped(_argv(order)) as pipes:
        _pump(stream, pipes, progress)
        result = pipes.end()
    if not result.ok:
        raise CommandFailed(f"unpacking {incoming.name} on {guest.name}", result)


def _pump(source: IO[bytes], pipes: Pipes, progress: Callable[[int], None]) -> None:
    """Copy a stream into a program. If the program ends early, its own message says why."""
    drained = threading.Thread(target=_drain, args=(pipes.source,), daemon=True)
    drained.start()
    with suppress(BrokenPipeError):
        while data := source.read(_BLOCK):
            pipes.sink.write(data)
            progress(len(data))
        pipes.sink.flush()


def _drain(source: IO[bytes]) -> None:
    with suppress(OSError, ValueError):
        while source.read(_BLOCK):
            pass


def restoration(agent: Located, guest: Guest, what: str) -> None:
    """Carry out one part of a restoration: settle, swap, back or finish."""
    order = {"do": what, "state": agent.paths.state}
    expect(guest, f"restoring the state of {agent.name}", _argv(order), deadline=600)


def stop(agent: Located, guest: Guest) -> None:
    """Stop the agent's processes."""
    expect(guest, f"stopping {agent.name}", agent.runtime.stop(), deadline=180)


def _argv(order: Mapping[str, object]) -> list[str]:
    return ["python3", "-I", "-c", program(*(f"paddock.stream.{name}" for name in _MODULES)), json.dumps(order)]
