"""``paddock sbom``: print a software bill of materials."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Sets, agents_completion


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

    The packages of its code are those of its lock. Those of its machine are the ones of the template that the machine
    was made from; without a template, those that are installed. They are left out while the machine cannot be reached.
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
