"""``paddock ask``, ``chat`` and ``sessions``: talk to an agent."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Json, Sets


@verb('paddock ask hermes "What do you remember?"', 'paddock ask --stream hermes "Write a letter."')
def ask(
    agent: Agent,
    prompt: Annotated[str, typer.Argument(help="Text to send.")],
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print the answer while it arrives, and the tools that the agent uses.")
    ] = False,
) -> None:
    """Send a prompt to a running agent and print the answer. Each call starts a new conversation."""
    from paddock.base.errors import PaddockError
    from paddock.base.text import one_line
    from paddock.cli.session import looking
    from paddock.core.ask import ask_agent
    from paddock.verbs.dialogue import ask_streaming

    with looking(file, [agent], sets) as agents:
        if stream:
            raise typer.Exit(ask_streaming(agents[0], prompt))
        answer = ask_agent(agents[0], prompt)
    if not answer.ok:
        raise PaddockError(f"{agent} did not answer: {one_line(answer.evidence)}")
    print(answer.evidence)


@verb("paddock chat hermes", "paddock chat hermes --continue")
def chat(
    agent: Agent,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Continue this one of `paddock sessions`.")
    ] = None,
    newest: Annotated[bool, typer.Option("--continue", help="Continue the newest session of `paddock chat`.")] = False,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Talk to a running agent. Ctrl-C stops an answer; Ctrl-D or /quit ends. Without a terminal, stdin is read."""
    from paddock.base.errors import BadInput
    from paddock.cli.session import looking
    from paddock.verbs.dialogue import talk

    if session is not None and newest:
        raise BadInput("--session and --continue are two ways to choose a session; keep one")
    with looking(file, [agent], sets) as agents:
        talk(agents[0], session, newest=newest, terminal=sys.stdin.isatty() and sys.stdout.isatty())


@verb("paddock sessions hermes")
def sessions(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of sessions to print.")] = 20,
    as_json: Json = False,
) -> None:
    """List the conversations that an agent keeps, the newest first, without those of `ask` and `verify`."""
    from paddock.cli.session import looking
    from paddock.verbs.chat import as_data, newest, table

    with looking(file, [agent], sets) as agents:
        found = newest(agents[0], lines)
    print(json.dumps([as_data(each) for each in found], indent=2) if as_json else table(found))
