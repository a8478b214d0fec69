"""``paddock run``: an agent in the foreground."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Sets


@verb("paddock run hermes")
def run(
    agent: Annotated[str, typer.Argument(help="An agent with runtime: process.")],
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Bring an agent up and keep it running here until Ctrl-C; for machines without systemd or root."""
    from pathlib import Path

    from paddock.cli.session import changing
    from paddock.errors import BadInput
    from paddock.run import verbs
    from paddock.runtimes.process.supervise import supervise

    with changing("run", file, [agent], sets=sets) as agents:
        deployment = agents[0]
        if not deployment.runtime.foreground:
            raise BadInput(f"{agent} does not have runtime: process", hint="`paddock up` starts it")
        verbs.up(deployment)
    log = Path(deployment.paths.etc).parent / "log"
    supervise(deployment.paths, log, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
