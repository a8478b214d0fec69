"""What Proxmox says no with, as types; told apart by the texts of its own code, for lack of better codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paddock.errors import PaddockError, WorldChanged


class ApiError(PaddockError):
    """Proxmox said no; carries its message and what it found wrong with each parameter."""

    def __init__(
        self, what: str, status: int, reason: str, errors: Mapping[str, str] | None = None, hint: str | None = None
    ) -> None:
        details = "".join(f"\n  {key}: {text.strip()}" for key, text in (errors or {}).items())
        super().__init__(f"Proxmox answered {status} to {what}: {reason.strip()}{details}", hint=hint)
        self.status = status
        self.reason = reason.strip()
        self.errors = dict(errors or {})


class Unauthorized(ApiError):
    """The token is wrong, expired, or its user is disabled; Proxmox does not tell which."""


class Forbidden(ApiError):
    """The token lacks a privilege; the message names it and the path."""


class RootOnly(Forbidden):
    """Proxmox keeps this for root@pam itself: no token may, whatever its privileges."""


class BadParameters(ApiError):
    """A parameter has a wrong form."""


class NoContainer(ApiError, WorldChanged):
    """There is no such container, or no longer. Proxmox has no 404: it misses the configuration file."""


class Protected(ApiError):
    """The container's protection is on."""


class Running(ApiError):
    """The container runs already."""


class NotRunning(ApiError, WorldChanged):
    """The container does not run, or no longer."""


class StillRuns(ApiError, WorldChanged):
    """It was stopped, and someone started it since."""


class Stopped(WorldChanged):
    """A container that ran when we looked runs no more."""


class Exists(ApiError, WorldChanged):
    """Someone else took the number since we looked."""


class Grown(ApiError, WorldChanged):
    """Someone else made the disk as large since we looked."""


class Modified(ApiError, WorldChanged):
    """Someone else changed the configuration since we looked."""


class Locked(ApiError, WorldChanged):
    """The container is in the middle of something."""


class AnswerLost(WorldChanged):
    """The call went out and no answer came back: it may have been carried out."""


_BY_TEXT: Final[tuple[tuple[re.Pattern[str], type[ApiError]], ...]] = (
    (re.compile(r"Configuration file '.*' does not exist"), NoContainer),
    (re.compile(r"CT \d+ already exists|VM \d+ already exists|already exists on node"), Exists),
    (re.compile(r"detected modified configuration"), Modified),
    (re.compile(r"CT is locked|can't lock file"), Locked),
    (re.compile(r"protection mode enabled"), Protected),
    (re.compile(r"CT \d+ already running"), Running),
    (re.compile(r"(CT|VM) \d+ not running"), NotRunning),
    (re.compile(r"container is running"), StillRuns),
    (re.compile(r"disk is already at specified size"), Grown),
)


def api_error(what: str, status: int, reason: str, errors: Mapping[str, str]) -> ApiError:
    """Return the error of the most telling type."""
    match status:
        case 401:
            return Unauthorized(
                what, status, reason, hint="check the token: user@realm!name=uuid, enabled, not expired"
            )
        case 403 if "only allowed for root@pam" in reason:
            hint = "no token may do this, also none of root@pam: it is for root at the node's console"
            return RootOnly(what, status, reason, errors, hint=hint)
        case 403:
            return Forbidden(what, status, reason, errors, hint="`paddock doctor` tells which privileges are missing")
        case 400:
            return BadParameters(what, status, reason, errors)
    for pattern, kind in _BY_TEXT:
        if pattern.search(reason):
            return kind(what, status, reason, errors)
    return ApiError(what, status, reason, errors)
