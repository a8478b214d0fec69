"""``paddock restart``: stop an agent and start it again."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Sets


@verb("paddock restart hermes")
def restart(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None, dry_run: DryRun = False) -> None:
    """Stop an agent, start it again and verify it. Its machine keeps running."""
    from paddock.cli.session import changing, looking
    from paddock.core import converge
    from paddock.core.resolve import Asked
    from paddock.plan.step import as_text

    if dry_run:
        with looking(file, [agent], sets) as agents:
            print(as_text(converge.plan(agents[0], Asked(restart=True)), {}))
        return
    with changing("restart", file, [agent], sets=sets) as agents:
        print(converge.up(agents[0], Asked(restart=True)))
