"""The state of an agent on its way: from its machine, and onto it in a restore."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from paddock.backups.contract import Backup, Destination
from paddock.backups.verified import UNLIMITED, Incomplete, Verified
from paddock.base import bounded, clock
from paddock.base.errors import Refused
from paddock.base.process import CommandFailed, Pipes
from paddock.base.text import one_line
from paddock.channels import Guest, expect
from paddock.core.deployment import SPARE
from paddock.core.resolve import Located
from paddock.onboard.stream.layout import announced, matcher
from paddock.plan.agent import AgentSeen
from paddock.runtimes import machine
from paddock.runtimes.contract import Isolation
from paddock.runtimes.sent import program

_BLOCK: Final = 1 << 20
_MOST_SAID: Final = 8 << 20
_MOST_LINES: Final = 20
SET_ASIDE: Final = 79  # an exit code


def receive_state(agent: Located, guest: Guest) -> None:
    """Unpack the incoming state beside the agent's present one, and verify it there."""
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
        # An agent without an account of its own is the account that runs this.
        "owner": [user.uid, user.gid or user.uid] if Isolation.ACCOUNT in agent.runtime.confines else None,
        # Without a known size, the room on the machine is the limit.
        "limit": UNLIMITED if incoming.size is None else incoming.size + SPARE,
        "needed": incoming.length or incoming.size or 0,
        "of": dict(incoming.of),
        "manifest": incoming.manifest,
        **({"origin": dict(incoming.origin.record)} if incoming.origin else {}),
        "expects": list(incoming.expects),
        "aside": list(incoming.aside),
    }
    progress = agent.reporter.progress(lambda: incoming.length)
    with incoming.open() as stream, guest.piped(_argv(order)) as pipes:
        told = _pump(stream, pipes, progress)
        result = pipes.end()
    if not result.ok:
        raise CommandFailed(f"unpacking {incoming.name} on {guest.name}", result)
    if incoming.origin:
        for line in _incomplete(told()):
            agent.reporter.say(line)


def _pump(source: IO[bytes], pipes: Pipes, progress: Callable[[int], None]) -> Callable[[], bytes]:
    """Copy a stream into a program; return a function that waits for the program's output.

    If the program ends early, its own message says why.
    """
    said = bytearray()
    drained = threading.Thread(target=_drain, args=(pipes.source, said), daemon=True)
    drained.start()
    with suppress(BrokenPipeError):
        while data := source.read(_BLOCK):
            pipes.sink.write(data)
            progress(len(data))
        pipes.sink.flush()

    def told() -> bytes:
        drained.join()
        return bytes(said)

    return told


def _drain(source: IO[bytes], said: bytearray) -> None:
    with suppress(OSError, ValueError):
        while data := source.read(_BLOCK):
            said += data[: _MOST_SAID - len(said)]


def _incomplete(manifest: bytes) -> list[str]:
    """Return a line for each file of a stream that was left out, or that is not a consistent copy."""
    try:
        found = bounded.parsed(manifest)
        lines = [f"{each['path']}: {each['why']}" for each in (*found["left_out"], *found["as_files"])]
    except (ValueError, KeyError, TypeError):
        return []
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return [one_line(f"not imported as it is: {line}", 300) for line in lines[:_MOST_LINES]] + more


def not_new(agent: Located, guest: Guest, size: int) -> str | None:
    """Return why nothing can be imported as the agent's state: it has files already, or no room for so many bytes."""
    order = {"do": "expect new", "state": agent.paths.state, "size": size}
    result = guest.run(_argv(order))
    return None if result.ok else one_line(result.err.strip().split("\n")[-1], 500)


def expect_new(agent: Located, guest: Guest, size: int) -> None:
    """Refuse if nothing can be imported as the agent's state."""
    if reason := not_new(agent, guest, size):
        raise Refused(f"{agent.name}: {reason}", hint="nothing was imported, and the install runs on")


def retire_origin(agent: Located) -> None:
    """Stop the install that the agent's state comes from, and keep it from starting."""
    if agent.incoming is None or agent.incoming.origin is None:
        raise TypeError(f"{agent.name} is not imported")
    agent.incoming.origin.retire()


def restoration(agent: Located, guest: Guest, what: str) -> str:
    """Carry out one part of a restoration: settle, swap, back, finish or whole; return what it printed."""
    order = {"do": what, "state": agent.paths.state}
    return expect(guest, f"restoring the state of {agent.name}", _argv(order), deadline=600)


def unless_set_aside(agent: Located, argv: Sequence[str]) -> list[str]:
    """Return an argv that ends with ``SET_ASIDE`` if something of the state is set aside, and is this one otherwise.

    The state was that of a copy then, and is made whole first. To ask for it alone would be another connection.
    """
    looked = f'if [ -d "$1" ]; then exit {SET_ASIDE}; fi; shift; exec "$@"'
    return ["sh", "-c", looked, "paddock", f"{agent.paths.state}/.paddock/set-aside", *argv]


def stop(agent: Located, guest: Guest) -> None:
    """Stop the agent's processes."""
    expect(guest, f"stopping {agent.name}", agent.runtime.stop(), deadline=180)


def _argv(order: Mapping[str, object]) -> list[str]:
    return ["python3", "-I", "-c", program("paddock.onboard.stream.restoration"), json.dumps(order)]


def about(agent: Located, seen: AgentSeen | None) -> dict[str, str | None]:
    """Return the facts about an agent for its backup. The version is the one of the code that last used the state."""
    ran = (seen.ran if seen else "") or getattr(agent.spec, "version", None)
    return {"agent": str(agent.id), "kind": agent.spec.kind, "version": ran}


def sender(
    agent: Located,
    said: Mapping[str, str | None],
    *,
    only: Sequence[str] | None = None,
    examine: bool = False,
) -> list[str]:
    """Return the argv that writes the state as a stream. ``only`` limits it to some files.

    With ``examine`` the manifest names databases that SQLite finds damaged.
    """
    keeping = agent.recipe.keeping(agent.spec)
    order = {
        "home": agent.paths.home,
        "staging": agent.paths.state,
        "rebuilt": list(keeping.rebuilt),
        "databases": list(keeping.databases),
        "growing": list(keeping.growing),
        "about": dict(said),
        "examine": examine,
        **({"only": list(only)} if only is not None else {}),
    }
    return ["python3", "-I", "-c", program("paddock.onboard.stream.send"), json.dumps(order)]


def send(agent: Located, guest: Guest, destination: Destination, said: Mapping[str, str | None]) -> Backup:
    """Send the state of an agent to a destination, with these facts about it."""
    texts = agent.recipe.keeping(agent.spec).texts
    with guest.piped(sender(agent, said)) as pipes:
        pipes.sink.close()
        progress = agent.reporter.progress(lambda: announced(pipes.said()))
        with Verified(pipes.source, matcher(list(texts)), progress) as stream:
            try:
                backup = destination.save(stream, clock.now().replace(microsecond=0))
            except Incomplete:
                result = pipes.end()
                if not result.ok:
                    raise CommandFailed(f"sending the state of {agent.name}", result) from None
                raise
        pipes.end()
    return backup
