"""Wrappers on the agent's PATH for the programs that Paddock installs with the code."""

from __future__ import annotations

from shlex import quote

from paddock.recipes.hermes.programs import COMMANDS, wanted
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import File


def shims(agent: HermesSpec, tree: str) -> list[File]:
    """Return wrappers on the agent's PATH: node has to be there, because the packages of npm start it by its name."""
    return [shim(command, tree) for name in wanted(agent) for command in COMMANDS[name]]


def shim(name: str, tree: str) -> File:
    """Return a wrapper for one program of the code tree; the tree's other programs are not on the agent's PATH."""
    return File(f"bin/{name}", f'#!/bin/sh\nexec {quote(f"{tree}/bin/{name}")} "$@"\n', executable=True)
