"""``paddock down``: remove machines, keep state."""

from __future__ import annotations

from functools import partial

from paddock.cli import verb
from paddock.cli.options import DEFAULT_FILE, File, Jobs, Looked, Only, Sets


@verb("paddock down --only hermes")
def down(
    file: File = DEFAULT_FILE, sets: Sets = None, only: Only = None, jobs: Jobs = 4, looked: Looked = False
) -> None:
    """Stop agents and remove their machines, except hosts. Their state is kept."""
    from paddock.cli.session import changing
    from paddock.core import converge
    from paddock.core.parallel import each

    with changing("down", file, only, jobs, sets) as agents:
        print("\n".join(each(agents, jobs, partial(converge.down, looked=looked))))
