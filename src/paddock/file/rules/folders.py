"""Folders that cannot be an agent's state or mount: those of the system, of Paddock, and other agents' states.

Paths are absolute and in normal form. Symbolic links are resolved on the machine: `paddock.onboard.state.path` has the
same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

# Folders that are the system's with everything below: recreated at every start (/dev, /proc, /run, /sys), read or
# executed by root (/bin, /etc, /usr, /root/.ssh), or managed by one program (/boot, /var/lib/docker).
_WHOLE: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/root/.ssh", "/var/lock", "/var/run", "/var/spool"),
    *(f"/var/lib/{name}" for name in ("apt", "containers", "docker", "dpkg", "lxc", "systemd")),
)
# Folders that many programs share. A folder below one of them can belong to an agent alone.
_SHARED: Final = (
    *("/", "/home", "/opt", "/root", "/tmp", "/var"),  # noqa: S108 # refused, not used
    *(f"/var/{name}" for name in ("backups", "cache", "lib", "local", "log", "mail", "opt", "tmp")),
)
# Shared too, but empty: not for a state, yet mounting something there hides nothing of the system.
_EMPTY: Final = ("/media", "/mnt", "/srv")
# Temporary folders: files below them are deleted sooner or later.
_PASSING: Final = ("/tmp", "/var/tmp")  # noqa: S108 # refused, not used

_STATES: Final = "/var/lib/paddock"  # the states, and links to them
_OWN: Final = ("/opt/paddock", "/etc/paddock", _STATES)
# Paddock's folders below the home of an account, whose path the file does not tell.
_OF_ACCOUNTS: Final = ((".config", "paddock"), (".local", "share", "paddock"))

_LIKE_A_STATE: Final = "a folder of the agent's own, not a temporary or shared one, like /srv/my-agent"
_ELSEWHERE: Final = "choose another path, like /mnt/data"


def within(path: str, folder: str) -> bool:
    """Whether a path is the folder or is below it."""
    return PurePosixPath(path).is_relative_to(folder)


def overlap(one: str, other: str) -> bool:
    """Whether the paths are equal, or one is below the other."""
    return within(one, other) or within(other, one)


def wrong_for_a_state(path: str) -> str | None:
    """Return why a path cannot be a state, whatever else is on the machine; None if it can."""
    own = _paddocks(path)
    if own and not (path in _SHARED or path in _WHOLE or _has_the_usual_form(path, own)):
        why = "has one folder for each agent" if own == _STATES else "is Paddock's own, and `down` deletes files there"
        return f"{own} {why}; write {_LIKE_A_STATE} (to move an existing state, stop the agent first)"
    if path in _EMPTY or any(within(path, each) for each in _PASSING) or _systems(path):
        return f"must be {_LIKE_A_STATE}"
    return None


def _has_the_usual_form(path: str, own: str) -> bool:
    """Whether a path has the form of Paddock's default path for a state, possibly of another agent."""
    below = PurePosixPath(path).relative_to(own).parts if within(path, own) else ()
    if own == _STATES:
        return len(below) == 1 and not below[0].startswith(".")
    return own not in _OWN and below[1:] == ("state",) and not below[0].startswith(".")


def hidden_by(path: str, needed: Mapping[str, str], *, itself: bool = False) -> str | None:
    """Return why nothing can be mounted at a path: it would hide a folder that is needed; None if it can.

    ``needed`` maps more folders to their descriptions. With ``itself``, paths below the system's folders are allowed.
    """
    own, system = _paddocks(path), _systems(path)
    if own and (within(path, own) or system is None):
        return f"{own} is Paddock's own; {_ELSEWHERE}"
    for folder, what in needed.items():
        if overlap(path, folder):
            return f"{folder} is {what}; {_ELSEWHERE}"
    if system is None or (itself and system != path):
        return None
    return f"{system} is the system's own; {_ELSEWHERE}"


def given_away(host: str, states: Mapping[str, str], *, read_only: bool) -> str | None:
    """Return why an agent may not get a directory of its host; None if it may. ``states`` maps states to agents."""
    if own := _paddocks(host):
        return f"{own} is Paddock's own, with secrets and states in it; no agent may see it"
    for folder, whose in states.items():
        if overlap(host, folder):
            return f"{folder} is the state of {whose}; choose a directory outside of it"
    # Paddock makes the agent the owner of a directory that it may write to.
    system = None if read_only else _systems(host)
    return f"{system} is the system's own; choose a directory that can belong to the agent alone" if system else None


def _paddocks(path: str) -> str | None:
    """Return the folder of Paddock that overlaps with a path, if there is one."""
    parts = PurePosixPath(path).parts
    for names in _OF_ACCOUNTS:
        for at in range(1, len(parts)):
            found = parts[at : at + len(names)]
            # A path that ends with the first of the names is above the folder.
            if found == names[: len(found)]:
                return str(PurePosixPath(*parts[:at], *names))
    return next((folder for folder in _OWN if overlap(path, folder)), None)


def _systems(path: str) -> str | None:
    """Return the system's folder that contains or equals a path, if there is one."""
    whole = next((folder for folder in _WHOLE if within(path, folder)), None)
    return whole or (path if path in _SHARED else None)
