"""Run programs beside the agent, show its logs and forward its ports, on the person's terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from paddock.base.errors import BadInput, PaddockError
from paddock.core import converge
from paddock.core.deployment import Deployment
from paddock.core.observe import expect_own_id, observe, reach
from paddock.core.resolve import locate
from paddock.kinds.workload import Paths


def enter(agent: Deployment, argv: Sequence[str], *, terminal: bool) -> int:
    """Run a program as the agent's user with its environment, and return its exit code."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    if seen.agent is None or not seen.agent.bundle_id:
        raise PaddockError(f"{agent.name} is not configured on its machine", hint="run `paddock up`")
    return reach(located, seen).attach(located.runtime.enter(argv), terminal=terminal)


def show_logs(agent: Deployment, lines: int, *, follow: bool) -> int:
    """Print the agent's log and return the exit code."""
    located = locate(agent)
    argv = located.runtime.logs(lines, follow=follow)
    guest = reach(located, expect_own_id(located, observe(located)))
    # The agent wrote these lines: they are printed through the streams that mask secrets.
    return guest.stream(argv, _printer(sys.stdout), _printer(sys.stderr))


def _printer(stream: TextIO) -> Callable[[str], None]:
    return lambda line: print(line, file=stream, flush=True)


def forward_port(agent: Deployment, port: str, local: int | None) -> int:
    """Forward a port of the agent until the person stops it, and return the exit code."""
    known = agent.spec.ports()
    number = known.get(port) or (int(port) if port.isdigit() else None)
    if number is None:
        hint = f"known ports: {', '.join(known) or 'none'}; a number works too"
        raise BadInput(f"{agent.name} has no port {port!r}", hint=hint)
    located = locate(agent)
    guest = reach(located, observe(located))
    print(f"http://127.0.0.1:{local or number} is port {number} of {guest.name}; stop with Ctrl-C", file=sys.stderr)
    return guest.forward(local or number, number)


def prepare(agent: Deployment) -> Paths:
    """Bring an agent up so that it can be started; return its paths."""
    located = locate(agent)
    if not located.runtime.foreground:
        raise BadInput(f"{agent.name} does not have `runtime: process`", hint="start it with `paddock up`")
    converge.up(agent)
    return located.paths
