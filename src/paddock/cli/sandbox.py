"""``paddock sandbox``: a Proxmox node in a box."""

from __future__ import annotations

import typer

from paddock.cli import verb
from paddock.errors import BadInput


@verb(
    "paddock sandbox --help",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def sandbox(context: typer.Context) -> None:
    """A Proxmox VE node in a box, to try and test things on; `paddock sandbox --help` tells more."""
    try:
        from paddock.sandbox.command import main
    except ImportError as error:
        raise BadInput(
            f"the sandbox needs {error.name}", hint="install Paddock with it: pip install 'paddock[sandbox]'"
        ) from None
    raise typer.Exit(main(context.args))
