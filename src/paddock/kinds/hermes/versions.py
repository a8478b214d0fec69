"""The differences between versions of Hermes that matter for its configuration and its start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from paddock.base.frozen import frozen
from paddock.kinds.hermes.spec import HermesSpec

Version = tuple[int, ...]


@frozen
class Traits:
    """The properties of one version, and of later ones up to the next entry in the table."""

    config_version: int  # the form of config.yaml; Hermes would convert an older one
    run: Sequence[str] = ()  # options of `hermes gateway run`
    variables: Mapping[str, str] = field(default_factory=dict)


# A restart that is requested in a chat must end the process, so that the supervisor starts it again. Without this,
# Hermes would start a second process itself. All versions recognise systemd and containers, and none recognises
# runtime `process`. Before --external-supervisor existed, the variable of launchd had the same effect, and no other.
_BY_VARIABLE: Final = {"XPC_SERVICE_NAME": "paddock"}

# The first version that can pin values (hermes_cli/managed_scope.py). An older one could change its own settings.
OLDEST: Final[Version] = (0, 17, 0)

_TRAITS: Final[Mapping[Version, Traits]] = {
    OLDEST: Traits(30, variables=_BY_VARIABLE),
    (0, 18, 0): Traits(32, variables=_BY_VARIABLE),
    (0, 18, 1): Traits(33, variables=_BY_VARIABLE),
    (0, 19, 0): Traits(33, run=("--external-supervisor",)),
}


def traits(agent: HermesSpec) -> Traits:
    """Return the properties of the agent's version. A folder of sources counts as the newest known version."""
    found = version_of(agent)
    if found is None:
        return _TRAITS[max(_TRAITS)]
    return _TRAITS[max((each for each in _TRAITS if each <= found), default=OLDEST)]


def version_of(agent: HermesSpec) -> Version | None:
    """Return the version in the file or in the name of the wheel; None for a folder of sources."""
    if agent.version is not None:
        return parsed(str(agent.version))
    wheel = re.match(r"[^-]+-([\d.]*\d)[^-]*-.*\.whl$", agent.package.name) if agent.package else None
    return parsed(wheel[1]) if wheel else None


def parsed(version: str) -> Version:
    """Return a version so that it can be compared."""
    return tuple(int(number) for number in version.split("."))
