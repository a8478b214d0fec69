"""``paddock sandbox``: run a simulated Proxmox node."""

from __future__ import annotations

import typer

from paddock.base.errors import BadInput
from paddock.cli import verb


@verb(
    "paddock sandbox --help",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def sandbox(context: typer.Context) -> None:
    """Run a simulated Proxmox node on this machine, with real LXC containers. The command `pvebox` is the same."""
    from paddock.base.computer import require_linux

    require_linux("the sandbox", "run it on a Linux computer or in a virtual machine; `paddock` here can use its node")
    try:
        from pvebox.console.command import main
    except ImportError as error:
        raise BadInput(
            f"the sandbox needs the Python package {error.name}",
            hint="install Paddock again, with its extra [sandbox]: README.md has the commands",
        ) from None
    raise typer.Exit(main(context.args, "paddock sandbox"))
