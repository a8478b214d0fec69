"""``paddock restart``: stop agents and start them again."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock restart hermes")
def restart(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None) -> None:
    """Stop an agent, start it again and verify it. Its machine and its container stay."""
    from paddock.cli.session import changing
    from paddock.run.restart import restart as work

    with changing("restart", file, [agent], sets=sets) as agents:
        print(work(agents[0]))
