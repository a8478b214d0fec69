"""Errors of the Proxmox API as types, told apart by their texts because Proxmox has no error codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from paddock.base.errors import PaddockError, WorldChanged

# True of every verb: a run observes first, so its plan continues from the changes of the killed or failed run.
CONTINUE: Final = "run the same command again: it continues where this run stopped"


# For failures on the node, which recur until somebody has removed the cause.
AFTERWARDS: Final = "once its cause is removed, the same command continues where this run stopped"


class ApiError(PaddockError):
    """Proxmox refused a request; carries its message and the error of each parameter."""

    def __init__(
        self, what: str, status: int, reason: str, errors: Mapping[str, str] | None = None, hint: str | None = None
    ) -> None:
        details = "".join(f"\n  {key}: {text.strip()}" for key, text in (errors or {}).items())
        super().__init__(f"Proxmox answered {status} to {what}: {reason.strip()}{details}", hint=hint)
        self.status = status
        self.reason = reason.strip()
        self.errors = dict(errors or {})


class Unauthorized(ApiError):
    """The token is wrong or expired, or its user is disabled; Proxmox does not say which."""


class Forbidden(ApiError):
    """The token lacks a privilege; the message names it and the path."""


class RootOnly(Forbidden):
    """Proxmox allows this only to root@pam; no token may do it, whatever its privileges."""


class BadParameters(ApiError):
    """A parameter is malformed."""


class NoContainer(ApiError, WorldChanged):
    """The container does not exist, or no longer. Proxmox reports a missing configuration file, not a 404."""


class Missing(ApiError):
    """The pool or the storage does not exist."""


class Protected(ApiError):
    """The container's protection is on."""


class Running(ApiError):
    """The container is already running."""


class NotRunning(ApiError, WorldChanged):
    """The container is not running, or no longer."""


class StillRuns(ApiError, WorldChanged):
    """The container was stopped, and someone started it since."""


class Stopped(WorldChanged):
    """A container that was running has stopped since."""


class Exists(ApiError, WorldChanged):
    """Someone else took the number since the observation."""


class Grown(ApiError, WorldChanged):
    """Someone else grew the disk to this size since the observation."""


class Modified(ApiError, WorldChanged):
    """Someone else changed the configuration since it was read."""


class Locked(ApiError, WorldChanged):
    """Another operation holds the container's lock."""


class UnderHa(ApiError):
    """The container is an HA resource, which Proxmox does not destroy."""


class AnswerLost(WorldChanged):
    """The request was sent and no response came back: Proxmox may have carried it out."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=f"Proxmox may have done it or not; {CONTINUE}")


# Without quorum the files of the cluster are read-only, also for Proxmox itself.
_NO_QUORUM: Final = re.compile(r"no quorum|unable to open file '/etc/pve/[^']*' - Permission denied")
NO_QUORUM: Final = "the cluster has no quorum, so nothing can be changed"
NO_QUORUM_HINT: Final = (
    f"start nodes until a majority of them is up; `pvecm status` on a node shows the votes; afterwards {CONTINUE}"
)


def says_no_quorum(text: str) -> bool:
    """Whether Proxmox's words say that the cluster has no quorum. Some of them look like a missing privilege."""
    return bool(_NO_QUORUM.search(text))


_BY_TEXT: Final[tuple[tuple[re.Pattern[str], type[ApiError]], ...]] = (
    (re.compile(r"Configuration file '.*' does not exist"), NoContainer),
    (re.compile(r"^(pool|storage) '.*' does not exist"), Missing),
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
    """Return the error of the most specific type."""
    match status:
        case 401:
            return Unauthorized(
                what, status, reason, hint="check the token: user@realm!name=uuid, enabled, not expired"
            )
        case 403 if "only allowed for root@pam" in reason:
            hint = "no token may do this, not even one of root@pam: run it as root in the node's shell"
            return RootOnly(what, status, reason, errors, hint=hint)
        case 403:
            return Forbidden(what, status, reason, errors, hint="`paddock doctor` shows which privileges are missing")
        case 400:
            return BadParameters(what, status, reason, errors)
    if says_no_quorum(reason):
        return ApiError(what, status, f"{NO_QUORUM}: {reason}", errors, hint=NO_QUORUM_HINT)
    if found := re.search(r"unable to remove CT (\d+) - used in HA resources", reason):
        hint = f"as root on a node: ha-manager remove ct:{found[1]}; afterwards {CONTINUE}"
        return UnderHa(what, status, reason, errors, hint=hint)
    for pattern, kind in _BY_TEXT:
        if pattern.search(reason):
            return kind(what, status, reason, errors)
    return ApiError(what, status, reason, errors, hint=f"the message is Proxmox's own; {AFTERWARDS}")


_GENERAL: Final = re.compile(r"startup for container '\d+' failed$")
# Lines that LXC prints after the decisive one, and lines of Proxmox around it.
_NO_REASON: Final = re.compile(r"lxc_init: |__lxc_start: |TASK |trying to acquire lock|\s*OK$|no content$|\s*$")
_HOOK: Final = re.compile(r"Script exited with status (\d+)")
_BRIDGE: Final = re.compile(r"bridge '[^']*' does not exist")
_MEANINGS: Final = {
    2: "something that it mounts does not exist",
    24: "too many files are open on the node; fs.inotify.max_user_instances may be too small",
    32: "a volume could not be mounted: it is in use, or its filesystem is damaged",
}


def reason(outcome: str, log: Iterable[str]) -> str:
    """Return the line of the log that gives the reason, and the meaning of an exit status of the mounts."""
    if not _GENERAL.search(outcome):
        return outcome
    line = next((line.strip() for line in log if not _NO_REASON.match(line) and not _GENERAL.search(line)), outcome)
    code = _HOOK.search(line)
    meaning = _MEANINGS.get(int(code[1])) if code else None
    return f"{line} ({meaning})" if meaning else line


def is_for_want_of_a_bridge(outcome: str) -> bool:
    """Whether the node has no bridge of the name in the configuration."""
    return bool(_BRIDGE.search(outcome))
