"""``paddock sandbox``: run a simulated Proxmox node."""

from __future__ import annotations

import typer

from paddock.cli import verb
from paddock.errors import BadInput


@verb(
    "paddock sandbox --help",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def sandbox(context: typer.Context) -> None:
    """Run a simulated Proxmox node on this machine, with real LXC containers. The command `pvebox` is the same."""
    try:
        from pvebox.command import main
    except ImportError as error:
        raise BadInput(
            f"the sandbox needs the Python package {error.name}",
            hint="install Paddock with its extra `sandbox`: pip install '.[sandbox]' in a clone",
        ) from None
    raise typer.Exit(main(context.args, "paddock sandbox"))
