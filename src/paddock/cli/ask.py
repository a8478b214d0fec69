"""``paddock ask``: send a prompt to an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


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
