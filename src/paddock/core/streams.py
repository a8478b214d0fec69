"""The state of an agent on its way: from its machine, and onto it in a restore."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any, Final

from paddock.backups.contract import Backup, Destination
from paddock.backups.verified import UNLIMITED, Incomplete, Verified
from paddock.base import clock
from paddock.base.errors import Refused
from paddock.base.process import CommandFailed, Pipes, Result
from paddock.base.text import one_line
from paddock.channels import Guest
from paddock.channels.onboard import answer_of, ask, framed_chunk, framed_payload, started, streaming, tried
from paddock.channels.onboard import send as send_request
from paddock.core.deployment import SPARE
from paddock.core.resolve import Located
from paddock.onboard.state.claim import ClaimForRestore
from paddock.onboard.stream.layout import announced, matcher
from paddock.onboard.stream.restoration import ExpectNew, Receive, Restore
from paddock.onboard.stream.send import SendState
from paddock.plan.agent import AgentSeen
from paddock.runtimes.contract import Isolation

_BLOCK: Final = 1 << 20
_MOST_SAID: Final = 8 << 20
_MOST_LINES: Final = 20


def receive_state(agent: Located, guest: Guest) -> None:
    """Unpack the incoming state beside the agent's present one, and verify it there."""
    incoming = agent.incoming
    if incoming is None:
        raise TypeError(f"{agent.name} receives nothing")
    claim = ClaimForRestore(agent.runtime.deployed, agent.place.traits.mounts_state)
    ask(guest, f"claiming the state of {agent.name}", claim)
    user = agent.spec.user
    order: dict[str, object] = {
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
    with incoming.open() as stream, guest.piped(started()) as pipes:
        send_request(pipes, Receive(agent.paths.state, order))
        answer = answer_of(_pumped(stream, pipes, progress), guest.name)
    if not answer.result.ok:
        raise CommandFailed(f"unpacking {incoming.name} on {guest.name}", answer.result)
    if incoming.origin:
        for line in _incomplete(answer.value):
            agent.reporter.say(line)


def _pumped(source: IO[bytes], pipes: Pipes, progress: Callable[[int], None]) -> Result:
    """Copy a stream into a program; return its result with what it printed.

    If the program ends early, its own message says why.
    """
    said = bytearray()
    drained = threading.Thread(target=_drain, args=(pipes.source, said), daemon=True)
    drained.start()
    with suppress(BrokenPipeError):
        while data := source.read(_BLOCK):
            pipes.sink.write(framed_chunk(data))
            progress(len(data))
        pipes.sink.write(framed_payload(b""))
        pipes.sink.flush()
    result = pipes.end()
    drained.join()
    return replace(result, out=said.decode(errors="replace"))


def _drain(source: IO[bytes], said: bytearray) -> None:
    with suppress(OSError, ValueError):
        while data := source.read(_BLOCK):
            said += data[: _MOST_SAID - len(said)]


def _incomplete(manifest: Any) -> list[str]:
    """Return a line for each file of a stream that was left out, or that is not a consistent copy."""
    try:
        lines = [f"{each['path']}: {each['why']}" for each in (*manifest["left_out"], *manifest["as_files"])]
    except (KeyError, TypeError):
        return []
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return [one_line(f"not imported as it is: {line}", 300) for line in lines[:_MOST_LINES]] + more


def not_new(agent: Located, guest: Guest, size: int) -> str | None:
    """Return why nothing can be imported as the agent's state: it has files already, or no room for so many bytes."""
    result = tried(guest, ExpectNew(agent.paths.state, size)).result
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


def restoration(agent: Located, guest: Guest, what: str) -> list[str]:
    """Carry out one part of a restoration: settle, swap, back, finish or whole; return what a person should know."""
    asked = Restore(agent.paths.state, what)
    return ask(guest, f"restoring the state of {agent.name}", asked, deadline=600, into=list[str])


def stop(agent: Located, guest: Guest) -> None:
    """Stop the agent's processes."""
    ask(guest, f"stopping {agent.name}", agent.runtime.stop(), deadline=180)


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
) -> SendState:
    """Return the request that writes the state as a stream. ``only`` limits it to some files.

    With ``examine`` the manifest names databases that SQLite finds damaged.
    """
    keeping = agent.recipe.keeping(agent.spec)
    order: dict[str, object] = {
        "home": agent.paths.home,
        "staging": agent.paths.state,
        "rebuilt": list(keeping.rebuilt),
        "databases": list(keeping.databases),
        "growing": list(keeping.growing),
        "about": dict(said),
        "examine": examine,
        **({"only": list(only)} if only is not None else {}),
    }
    return SendState(order)


def send(agent: Located, guest: Guest, destination: Destination, said: Mapping[str, str | None]) -> Backup:
    """Send the state of an agent to a destination, with these facts about it."""
    texts = agent.recipe.keeping(agent.spec).texts
    with streaming(guest, sender(agent, said)) as pipes:
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
