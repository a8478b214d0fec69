"""``paddock init``: a file to start with."""

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
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(),
    shape: Annotated[
        Shape,
        typer.Option(
            "--shape",
            help="pet-and-cattle: a machine on Proxmox. docker-lxc: Docker in one, with the node's big disks."
            " container: Docker or Podman on a host. native: a service on a host.",
        ),
    ] = Shape.PET_AND_CATTLE,
) -> None:
    """Write a commented paddock.yaml to start with, its schema for editors, and a .gitignore for secrets."""
    from paddock.recipes import KINDS
    from paddock.spec.starter import write_starter

    for line in write_starter(folder, shape, KINDS):
        print(line)
