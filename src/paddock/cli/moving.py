"""Show the plans that give agents another project or name, and carry them out after `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from paddock.base.errors import BadInput, Exit
from paddock.cli.session import changing, looking
from paddock.file import edit
from paddock.file.models.fields import is_name
from paddock.kinds import load
from paddock.plan.step import as_text
from paddock.verbs import rename as work


def move(
    verb: str, project: str, named: list[str] | None, files: Sequence[Path], sets: Sequence[str] | None, *, yes: bool
) -> None:
    """Move the named agents, or all that the project has, to the project of the file."""
    with looking(files, named, sets) as agents:
        plans = {agent.name: work.plan(work.from_project(agent, project)) for agent in agents}
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
            print(work.rename(work.from_project(agent, project), found[agent.name]))


def rename(former: str, name: str, files: Sequence[Path], sets: Sequence[str] | None, *, yes: bool) -> None:
    """Give the agent another name, in its place and in the file."""
    in_file = _name_in_file(former, name, files, sets)
    with looking(files, [in_file], sets) as agents:
        renamed = work.from_name(agents[0], former, name)
        planned = work.plan(renamed)
        path = renamed.spec.state.path
    if planned is None:
        raise BadInput(f"there is no {former} of project {renamed.project} at {renamed.where}")
    print(as_text(planned, {}), file=sys.stderr)
    if planned.refusals:
        raise typer.Exit(Exit.NEEDS_PERSON)
    if not yes:
        more = f"renames {former} in the file and " if in_file == former else ""
        print(f"nothing was changed; --yes {more}writes its state.path and carries out this plan", file=sys.stderr)
        return
    moved = [each.replace(f"agents.{former}.", f"agents.{name}.", 1) for each in sets or ()]
    # The file comes first: the path of the state in it makes a plain `up` refuse until the rename is finished.
    rewritten = edit.rename_agent(files, former, name, {"state": {"path": path}})
    try:
        load(*files, sets=moved)
    except BadInput:
        for each in rewritten:
            each.undo()
        raise
    for each in rewritten:
        print(f"wrote {each.path}", file=sys.stderr)
    with changing("rename", files, [name], sets=moved) as agents:
        print(work.rename(work.from_name(agents[0], former, name), planned))
    if renamed.spec.backup:
        print(
            f"its backups so far keep the name {former}; `paddock backup {name}` makes the first of {name}",
            file=sys.stderr,
        )


def _name_in_file(former: str, name: str, files: Sequence[Path], sets: Sequence[str] | None) -> str:
    """Return which of the two names the file has; an error unless it has one of them."""
    if not is_name(name):
        raise BadInput(f"{name} cannot be the name of an agent", hint="lower case letters, digits and -, at most 31")
    agents = load(*files, sets=sets or ()).spec.agents
    if former in agents and name in agents:
        raise BadInput(f"the file has {former} and {name}: they are two agents", hint=f"remove {name} from the file")
    if former not in agents and name not in agents:
        raise BadInput(f"the file has neither {former} nor {name}", hint=f"write {name} into the file")
    return former if former in agents else name
