"""``paddock restart``: stop an agent and start it again."""

from __future__ import annotations

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, DryRun, File, Sets


@verb("paddock restart hermes")
def restart(agent: Agent, file: File = DEFAULT_FILE, sets: Sets = None, dry_run: DryRun = False) -> None:
    """Stop an agent, start it again and verify it. Its machine keeps running."""
    from paddock.cli.session import changing, looking
    from paddock.plan.show import as_text
    from paddock.run import verbs
    from paddock.run.resolve import Asked

    if dry_run:
        with looking(file, [agent], sets) as agents:
            print(as_text(verbs.plan(agents[0], Asked(restart=True)), {}))
        return
    with changing("restart", file, [agent], sets=sets) as agents:
        print(verbs.up(agents[0], Asked(restart=True)))
