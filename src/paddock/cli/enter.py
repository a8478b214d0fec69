"""``paddock shell``, ``exec``, ``logs`` and ``forward``: at the agent's side."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock shell hermes")
def shell(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Open a shell on the agent's machine, as its user and with its environment."""
    from paddock.cli.session import looking
    from paddock.run.enter import enter

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(enter(agents[0], ["bash"], terminal=True))


@verb("paddock exec hermes -- ls -la", name="exec", context_settings={"ignore_unknown_options": True})
def execute(
    agent: Agent,
    command: Annotated[list[str], typer.Argument(help="Program and arguments, after --.")],
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Run a program beside the agent, as its user and with its environment; its exit code is the program's."""
    from paddock.cli.session import looking
    from paddock.run.enter import enter

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(enter(agents[0], command, terminal=sys.stdin.isatty() and sys.stdout.isatty()))


@verb("paddock logs hermes --follow")
def logs(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes.")] = False,
) -> None:
    """Show what the agent has said."""
    from paddock.cli.session import looking
    from paddock.run.enter import show_logs

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(show_logs(agents[0], lines, follow=follow))


@verb("paddock forward hermes dashboard")
def forward(
    agent: Agent,
    port: Annotated[str, typer.Argument(help="A port's name, like api_server or dashboard, or its number.")],
    local: Annotated[int | None, typer.Option("--local", help="The port here; without it the same number.")] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Make a port of the agent's machine reachable here, on loopback, until Ctrl-C."""
    from paddock.cli.session import looking
    from paddock.run.enter import forward_port

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(forward_port(agents[0], port, local))
