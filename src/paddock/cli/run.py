"""``paddock run``: run an agent in the foreground."""

from __future__ import annotations

import sys

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, Agent, File, Sets


@verb("paddock run hermes")
def run(
    agent: Agent,
    file: File = DEFAULT_FILE,
    sets: Sets = None,
) -> None:
    """Run an agent with `runtime: process` in the foreground until Ctrl-C. Needs neither systemd nor root."""
    from pathlib import Path

    from paddock.cli.session import changing
    from paddock.runtimes.process.supervise import supervise
    from paddock.verbs import enter

    with changing("run", file, [agent], sets=sets) as agents:
        paths = enter.prepare(agents[0])
    log = Path(paths.etc).parent / "log"
    supervise(paths, log, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
