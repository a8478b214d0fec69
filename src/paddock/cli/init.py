"""``paddock init``: write a first paddock.yaml."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli import verb


class Shape(StrEnum):
    PET_AND_CATTLE = "pet-and-cattle"
    DOCKER_LXC = "docker-lxc"
    CONTAINER = "container"
    NATIVE = "native"


@verb("paddock init --shape native")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write into.")] = Path(),
    shape: Annotated[
        Shape,
        typer.Option(
            "--shape",
            help="pet-and-cattle: an LXC container on Proxmox. docker-lxc: Docker in an LXC container, with directories"
            " of the node. container: Docker or Podman on a host. native: a systemd service on a host.",
        ),
    ] = Shape.PET_AND_CATTLE,
    project: Annotated[
        str | None, typer.Option("--project", help="Whose agents the file describes; without it the folder's name.")
    ] = None,
) -> None:
    """Write a commented paddock.yaml, its JSON Schema for editors, and a .gitignore that covers secrets."""
    from paddock.recipes import KINDS
    from paddock.spec.starter import write_starter

    for line in write_starter(folder, shape, KINDS, project):
        print(line)
