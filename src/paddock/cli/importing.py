"""Show the plan that imports an install, and carry it out after `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.base.errors import Refused
from paddock.cli.session import changing, looking
from paddock.plan.step import as_text
from paddock.verbs import importing as work


def import_from(
    text: str, host_key: str | None, agent: str, files: Sequence[Path], sets: Sequence[str] | None, *, yes: bool
) -> None:
    """Import the named source as the state of an agent."""
    source = work.named(text)
    if not yes:
        with looking(files, [agent], sets) as agents:
            plan = work.plan(agents[0], source, host_key)
        print(as_text(plan, {}), file=sys.stderr)
        if plan.refusals:
            raise Refused(f"{agent}: nothing was imported", hint="the plan says why")
        print("nothing was changed; --yes carries out this plan", file=sys.stderr)
        return
    with changing("adopt", files, [agent], sets=sets) as agents:
        print(work.adopt(agents[0], source, host_key))
