"""The documents of an agent as files of its state, and who may change them there."""

from __future__ import annotations

from pathlib import PurePosixPath

from paddock.recipes.hermes.documents import MEMORIES, SOUL, places
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Keep, StateFile


def files(agent: HermesSpec) -> tuple[StateFile, ...]:
    """Return the documents as files of the state, at the places where Hermes reads them.

    The file alone decides who the agent is: SOUL.md is locked. USER.md and MEMORY.md are the agent's memory: they are
    written once, and never again. All others are written with each configuration.
    """
    return tuple(StateFile(path, text or "", _keep(path)) for path, text in places(agent))


def _keep(path: str) -> Keep:
    if path == SOUL:
        return Keep.LOCKED
    return Keep.SEEDED if PurePosixPath(path).parent == PurePosixPath(MEMORIES) else Keep.PLANTED
