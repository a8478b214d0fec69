"""``paddock shell``, ``exec``, ``logs``, ``forward`` and ``run``: work on the machine of an agent, or run it here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock shell hermes")
def shell(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Open a shell on the agent's machine, as the agent's user and with the agent's environment."""
    from paddock.cli.session import looking
    from paddock.verbs.enter import enter

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(enter(agents[0], ["bash"], terminal=True))


@verb("paddock exec hermes -- ls -la", name="exec", context_settings={"ignore_unknown_options": True})
def execute(
    agent: Agent,
    command: Annotated[list[str], typer.Argument(help="Program and arguments. Put -- before them.")],
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Run a program as the agent's user, with the agent's environment. Returns the program's exit code."""
    from paddock.cli.session import looking
    from paddock.verbs.enter import enter

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(enter(agents[0], command, terminal=sys.stdin.isatty() and sys.stdout.isatty()))


@verb("paddock logs hermes --follow")
def logs(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines to print.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines.")] = False,
) -> None:
    """Print the last lines of the agent's log."""
    from paddock.cli.session import looking
    from paddock.verbs.enter import show_logs

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(show_logs(agents[0], lines, follow=follow))


@verb("paddock forward hermes dashboard")
def forward(
    agent: Agent,
    port: Annotated[str, typer.Argument(help="Name of a port, such as api_server or dashboard, or its number.")],
    local: Annotated[
        int | None,
        typer.Option("--local", help="Local port, on the computer that runs paddock. Default: the same number."),
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Forward a port of the agent's machine to loopback on this machine, until Ctrl-C."""
    from paddock.cli.session import looking
    from paddock.verbs.enter import forward_port

    with looking(file, [agent], sets) as agents:
        raise typer.Exit(forward_port(agents[0], port, local))


@verb("paddock run hermes")
def run(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Run an agent with `runtime: process` in the foreground until Ctrl-C. Needs neither systemd nor root."""
    from pathlib import Path

    from paddock.cli.session import changing
    from paddock.runtimes.process.supervise import supervise
    from paddock.verbs import enter

    with changing("run", file, [agent], sets=sets) as agents:
        paths = enter.prepare(agents[0])
    log = Path(paths.etc).parent / "log"
    supervise(paths, log, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
