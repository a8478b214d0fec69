"""``paddock secrets``: list, set, remove and print the entries of an age file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from paddock.base.errors import BadInput
from paddock.cli import app, verb
from paddock.cli.options import Json

secrets = typer.Typer(
    name="secrets",
    help="List, set, remove and print secrets in a file encrypted with age.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(secrets)

Store = Annotated[Path, typer.Option("--in", metavar="AGE_FILE", help="The encrypted file.")]
Name = Annotated[str, typer.Argument(help="Name of the entry.")]
DEFAULT_STORE = Path("secrets.age")


@verb("paddock secrets list --in secrets.age", of=secrets, name="list")
def list_(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Print the names of the entries, without their values."""
    from paddock.file.secrets.files import Store as AgeStore

    if not store.exists():
        raise BadInput(f"{store} does not exist", hint="`paddock secrets set NAME` creates it with its first secret")
    names = sorted(AgeStore.open(store).entries)
    print(json.dumps(names) if as_json else "\n".join(names))


@verb("pass show telegram | paddock secrets set telegram", of=secrets)
def set(  # noqa: A001  the verb is called so
    name: Name,
    store: Store = DEFAULT_STORE,
    recipient: Annotated[
        list[str] | None,
        typer.Option("--recipient", metavar="KEY", help="Age public key of another person who may decrypt the file."),
    ] = None,
) -> None:
    """Add or replace a secret in the encrypted file. Asks for the value on a terminal, or reads it from stdin."""
    from paddock.file.secrets.files import set_entry

    value = typer.prompt(name, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    for line in set_entry(store, name, value, recipient or []):
        print(line, file=sys.stderr)


@verb("paddock secrets rm telegram", of=secrets)
def rm(name: Name, store: Store = DEFAULT_STORE) -> None:
    """Remove an entry."""
    from paddock.file.secrets.files import remove_entry

    remove_entry(store, name)


@verb("paddock secrets get telegram | wl-copy", of=secrets)
def get(
    name: Name,
    store: Store = DEFAULT_STORE,
    reveal: Annotated[bool, typer.Option("--reveal", help="Print the value even to a terminal.")] = False,
) -> None:
    """Print the value of an entry. To a terminal only with --reveal."""
    from paddock.base.errors import BadInput
    from paddock.base.secret import unmasked
    from paddock.file.secrets.files import Store as AgeStore

    if sys.stdout.isatty() and not reveal:
        raise BadInput(
            "stdout is a terminal", hint="add --reveal to print the value here, or pipe it to another program"
        )
    print(AgeStore.open(store).get(name).reveal(), file=unmasked(sys.stdout))
