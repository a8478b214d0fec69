"""``paddock cycle``: recreate machines."""

from __future__ import annotations

from functools import partial

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Jobs, Looked, NoWait, Only, Sets


@verb("paddock cycle --only hermes")
def cycle(
    file: File = DEFAULT_FILE,
    sets: Sets = None,
    only: Only = None,
    jobs: Jobs = 4,
    no_wait: NoWait = False,
    looked: Looked = False,
) -> None:
    """Recreate the machines of agents and keep their state."""
    from paddock.cli.session import changing
    from paddock.core import converge
    from paddock.core.parallel import each

    with changing("cycle", file, only, jobs, sets, patient=not no_wait) as agents:
        print("\n".join(each(agents, jobs, partial(converge.cycle, looked=looked))))
