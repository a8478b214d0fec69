"""Show the plans that move agents from another project, and carry them out after `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.cli.session import changing, looking
from paddock.errors import BadInput
from paddock.plan.show import as_text
from paddock.run import rename as work


def move(
    verb: str, project: str, named: list[str] | None, files: Sequence[Path], sets: Sequence[str] | None, *, yes: bool
) -> None:
    """Move the named agents, or all that the project has, to the project of the file."""
    with looking(files, named, sets) as agents:
        plans = {agent.name: work.plan(agent, project) for agent in agents}
    found = {name: plan for name, plan in plans.items() if plan}
    missing = [name for name in plans if name not in found]
    if missing and (named or not found):
        raise BadInput(f"there is no {' and no '.join(missing)} of project {project} in the places of the file")
    print("\n".join(as_text(plan, {}) for plan in found.values()), file=sys.stderr)
    if not yes and not any(plan.refusals for plan in found.values()):
        print("nothing was changed; --yes carries out this plan", file=sys.stderr)
        return
    with changing(verb, files, list(found), sets=sets) as agents:
        for agent in agents:
            print(work.rename(agent, project, found[agent.name]))
