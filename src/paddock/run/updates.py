"""Whether the package index has a newer version of an agent's package. The index is asked at most once a day."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from paddock import clock
from paddock.errors import PaddockError
from paddock.run.deployment import Deployment
from paddock.runtimes import package_index
from paddock.statefolder import state_folder

_OFTEN_ENOUGH: Final = timedelta(days=1)
_PATIENCE: Final = 20.0  # seconds; `status` has to answer without a network too
UNKNOWN: Final = "unknown: the package index did not answer"


def newer_version(agent: Deployment, than: str) -> str:
    """Return the version in the package index that is newer than another; "-" if there is none."""
    if agent.spec.image_brings_code:
        return "-"  # the index does not know which versions there are as images
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    if wanted is None or wanted.local is not None:
        return "-"
    newest = _newest(wanted.name)
    if newest is None:
        return UNKNOWN
    return newest if _numbers(newest) > _numbers(than) else "-"


@cache
def _newest(package: str) -> str | None:
    """Return the newest version, from the last answer if that is recent; None if the index does not answer."""
    path = state_folder() / "newest" / f"{package}.json"
    now = clock.now()
    with suppress(OSError, ValueError, KeyError, TypeError):
        answer = json.loads(path.read_text())
        if timedelta() <= now - datetime.fromisoformat(answer["asked"]) < _OFTEN_ENOUGH:
            return str(answer["version"])
    try:
        version = package_index.newest(package, _PATIENCE)
    except PaddockError:
        return None
    with suppress(OSError):  # without it, the index is asked again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": version, "asked": now.isoformat()}))
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
