"""``paddock adopt``: manage an existing container or state volume."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Looked, Sets


@verb(
    "paddock adopt hermes 105",
    "paddock adopt hermes 105 --state mp0 --yes",
    "paddock adopt hermes --from-project lab",
    "paddock adopt hermes --from 118 --yes",
    "paddock adopt hermes --from root@10.1.10.30:/opt/hermes",
    "paddock adopt hermes --from ./hermes-backup.zip",
)
def adopt(
    agent: Agent,
    vmid: Annotated[
        int | None,
        typer.Argument(help="Container to adopt as the agent's machine. Without it, only the state is adopted."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="VOLUME",
            help="Volume that holds the agent's state: a mount point of the container (mp0) or storage:name.",
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--from-project", metavar="PROJECT", help="Take the agent over from another project.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Copy the state of an install that is not on a volume, and stop that install: the number of a"
            " container (118), user@host, a zip file of `hermes backup`, or a folder. 118:/opt/hermes and"
            " user@host:/opt/hermes name the folder too.",
        ),
    ] = None,
    host_key: Annotated[
        str | None,
        typer.Option("--host-key", metavar="KEY", help="The ssh host key of the container, or its fingerprint."),
    ] = None,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan, also with --yes.")] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Adopt, and write the keys machine and state into the file. Without it, only show the plan."
        ),
    ] = False,
    looked: Looked = False,
) -> None:
    """Adopt a container as an agent's machine, a volume as its state, or the agent of another project.

    With --from, copy an existing install into a new state. The install itself is left as it is.
    """
    from paddock.base.errors import BadInput
    from paddock.cli.moving import move
    from paddock.cli.session import changing, looking
    from paddock.file import edit
    from paddock.plan.step import AdoptTarget, as_text
    from paddock.verbs import adopt as work

    yes = yes and not dry_run
    if origin is not None:
        if vmid is not None or state is not None or project is not None or looked:
            raise BadInput("--from copies an install: it needs no other argument")
        _import_from(origin, host_key, agent, file, sets, yes=yes)
        return
    if host_key is not None:
        raise BadInput("--host-key is for --from")
    if project is not None:
        if vmid is not None or state is not None or looked:
            raise BadInput("--from-project takes over the agent's own machine and state: it needs no other argument")
        move("adopt", project, [agent], file, sets, yes=yes)
        return
    target = AdoptTarget(vmid, state)
    with looking(file, [agent], sets) as agents:
        said = work.describe(agents[0], target).said
    as_it_is = [*(sets or ()), *edit.as_assignments(agent, said)]
    with looking(file, [agent], as_it_is) as agents:
        planned = work.plan(agents[0], target, looked=looked)
    if said and not planned.refusals:
        print(edit.as_text(agent, said), end="")
    print(as_text(planned, {}), file=sys.stderr)
    if not yes and not planned.refusals:
        print(
            "nothing was changed; --yes carries out this plan and writes the YAML above into the file", file=sys.stderr
        )
        return
    with changing("adopt", file, [agent], sets=as_it_is) as agents:
        if said and not planned.refusals:
            # Write the file before marking the container. Without these keys the next `up` would change the machine.
            print(f"wrote {edit.write_into(file, agent, said).path}", file=sys.stderr)
        print(work.adopt(agents[0], target, looked=looked))


def _import_from(
    text: str, host_key: str | None, agent: str, files: list[Path], sets: list[str] | None, *, yes: bool
) -> None:
    """Show the plan that imports the named source as the state of an agent, and carry it out after `--yes`."""
    from paddock.base.errors import Refused
    from paddock.cli.session import changing, looking
    from paddock.plan.step import as_text
    from paddock.verbs import importing as work

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
