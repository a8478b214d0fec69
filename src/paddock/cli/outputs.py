"""``paddock outputs``, ``console``, ``sbom`` and ``schema``: print what other programs read."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from paddock.base.errors import Exit
from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Json, Only, Sets, agents_completion


class Format(StrEnum):
    """What other programs read."""

    TEXT = "text"
    JSON = "json"
    ENV = "env"
    TF = "tf"


@verb("paddock outputs --format tf > paddock.tf", "paddock outputs --format env > hermes.env")
def outputs(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    form: Annotated[
        Format, typer.Option("--format", help="env: HERMES_ADDRESS=…; tf: a local value for Terraform.")
    ] = Format.TEXT,
    as_json: Json = False,
    env: Annotated[bool, typer.Option("--env", hidden=True, help="The same as --format env.")] = False,
) -> None:
    """Print the number, host name and address of each agent's machine."""
    from paddock.cli.session import looking
    from paddock.verbs.outputs import as_env, as_terraform, as_text
    from paddock.verbs.outputs import outputs as read

    with looking(file, only, sets) as agents:
        found = {agent.name: read(agent) for agent in agents}
    match Format.JSON if as_json else Format.ENV if env else form:
        case Format.JSON:
            lines = iter([json.dumps(found, indent=2)])
        case Format.ENV:
            lines = as_env(found)
        case Format.TF:
            lines = as_terraform(found)
        case Format.TEXT:
            lines = as_text(found)
    print("\n".join(lines))


@verb("paddock console | ssh root@node sh")
def console(file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None, as_json: Json = False) -> None:
    """Print the commands that only root can run, to paste into the node's shell."""
    from paddock.cli.session import looking
    from paddock.verbs.outputs import script

    with looking(file, only, sets) as agents:
        found = {agent.name: script(agent) for agent in agents}
    if as_json:
        told = {name: [line for line in each.lines if not line.startswith("#")] for name, each in found.items()}
        print(json.dumps([{"agent": name, "commands": lines} for name, lines in told.items()], indent=2))
    else:
        print("\n".join(line for each in found.values() for line in each.lines))
    if refused := [line for each in found.values() for line in each.refused]:
        print("\n".join(refused), file=sys.stderr)  # a shell at the end of a pipe does not show comments
        raise typer.Exit(Exit.FAILED)


@verb("paddock sbom hermes > hermes.cdx.json", "paddock sbom --wheel > paddock.cdx.json")
def sbom(
    agent: Annotated[
        str | None, typer.Argument(autocompletion=agents_completion, help="Name of the agent in the file.")
    ] = None,
    wheel: Annotated[
        bool, typer.Option("--wheel", help="Paddock's own packages, as constraints.txt has them.")
    ] = False,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Print the packages of an agent with versions and hashes, as CycloneDX JSON for scanners of vulnerabilities.

    The packages of its code come from its lock. The packages of its machine come from the machine's template; without a
    template, they are the installed ones. They are left out while the machine cannot be reached.
    """
    from paddock.base.errors import BadInput

    if (agent is None) is not wheel:
        raise BadInput("name an agent, or give --wheel, and not both")
    from paddock.verbs import sbom as work

    if agent is None:
        bill = work.of_wheel()
    else:
        from paddock.cli.session import looking

        with looking(file, [agent], sets) as found:
            bill = work.of_agent(found[0])
    print(json.dumps(bill, indent=2))


@verb("paddock schema > paddock.schema.json")
def schema() -> None:
    """Print the JSON Schema of paddock.yaml, for editors. It describes every key."""
    from paddock.file.schema import json_schema
    from paddock.kinds import KINDS

    print(json.dumps(json_schema(KINDS), indent=2))
