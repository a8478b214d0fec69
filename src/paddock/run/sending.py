"""Send the state of an agent from its machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from paddock import clock
from paddock.backups import Backup, Destination
from paddock.backups.verified import Incomplete, Verified
from paddock.guests import Guest
from paddock.plan.agent import AgentSeen
from paddock.process import CommandFailed
from paddock.run.resolve import Located
from paddock.runtimes.program import program
from paddock.stream.layout import announced, matcher


def about(agent: Located, seen: AgentSeen | None) -> dict[str, str | None]:
    """Return what a backup says about its agent. The version is that of the code that last ran on the state."""
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
    return ["python3", "-I", "-c", program("paddock.stream.send"), json.dumps(order)]


def send(agent: Located, guest: Guest, destination: Destination, said: Mapping[str, str | None]) -> Backup:
    """Send the state of an agent to a destination, with what is said about it."""
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
