"""Folders of a machine that are not for an agent's state or mounts: the system's, Paddock's own, other agents' states.

Paths are as ``AbsolutePath`` leaves them. Links are for the machine to resolve: receive.sh refuses the same there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

# At or below: made anew at every start (/dev, /proc, /run, /sys), read or run by root (/bin, /etc, /usr, /root/.ssh),
# or kept by a program that alone knows what is in it (/boot, /var/lib/docker).
_WHOLE: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/root/.ssh", "/var/lock", "/var/run", "/var/spool"),
    *(f"/var/lib/{name}" for name in ("apt", "containers", "docker", "dpkg", "lxc", "systemd")),
)
# The folder itself, which many share. One below it can be an agent's alone.
_SHARED: Final = (
    *("/", "/home", "/opt", "/root", "/tmp", "/var"),  # noqa: S108 # refused, not used
    *(f"/var/{name}" for name in ("backups", "cache", "lib", "local", "log", "mail", "opt", "tmp")),
)
# The same for a state. Something mounted at them hides nothing of the system.
_EMPTY: Final = ("/media", "/mnt", "/srv")
# Nothing below them lasts.
_PASSING: Final = ("/tmp", "/var/tmp")  # noqa: S108 # refused, not used

_STATES: Final = "/var/lib/paddock"  # the states, or links that lead to them
_OWN: Final = ("/opt/paddock", "/etc/paddock", _STATES)
# The same in the home of an account, whose path the file does not know.
_OF_ACCOUNTS: Final = ((".config", "paddock"), (".local", "share", "paddock"))

_LIKE_A_STATE: Final = "a folder of its own that lasts, like /srv/my-agent"
_ELSEWHERE: Final = "choose another path, like /mnt/data"


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or is below it."""
    return PurePosixPath(path).is_relative_to(folder)


def overlap(one: str, other: str) -> bool:
    """Whether one path is the other, or is above or below it."""
    return within(one, other) or within(other, one)


def wrong_for_a_state(path: str) -> str | None:
    """What is wrong with a path for a state, whatever else is on the machine."""
    own = _paddocks(path)
    if own and not (path in _SHARED or path in _WHOLE or _has_the_usual_form(path, own)):
        why = "has one folder for each agent" if own == _STATES else "is Paddock's own, and `down` deletes from it"
        return f"{own} {why}; write {_LIKE_A_STATE} (stop the agent and move a state that is there already)"
    if path in _EMPTY or any(within(path, each) for each in _PASSING) or _systems(path):
        return f"must be {_LIKE_A_STATE}"
    return None


def _has_the_usual_form(path: str, own: str) -> bool:
    """Whether a state is where Paddock itself would put one, be it under another agent's name."""
    below = PurePosixPath(path).relative_to(own).parts if within(path, own) else ()
    if own == _STATES:
        return len(below) == 1
    return own not in _OWN and below[1:] == ("state",) and not below[0].startswith(".")


def hidden_by(path: str, needed: Mapping[str, str], *, itself: bool = False) -> str | None:
    """What something mounted at a path would hide; ``needed`` are more folders, and what they are.

    ``itself`` allows what is below the system's folders.
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
    """What an agent that sees a directory of its host would get; ``states`` are folders there, and whose."""
    if own := _paddocks(host):
        return f"{own} is Paddock's own, with secrets and memories in it, and no agent may see it"
    for folder, whose in states.items():
        if overlap(host, folder):
            return f"{folder} is the state of {whose}; write a directory outside of it"
    # A directory that an agent may write to becomes its own.
    system = None if read_only else _systems(host)
    return f"{system} is the system's own; write a directory that can be the agent's alone" if system else None


def _paddocks(path: str) -> str | None:
    """The folder of Paddock's own that a path is, or is above or below."""
    parts = PurePosixPath(path).parts
    for names in _OF_ACCOUNTS:
        for at in range(1, len(parts)):
            found = parts[at : at + len(names)]
            # Where the path ends with the first of the names, it is above.
            if found == names[: len(found)]:
                return str(PurePosixPath(*parts[:at], *names))
    return next((folder for folder in _OWN if overlap(path, folder)), None)


def _systems(path: str) -> str | None:
    """The folder of the system's that a path is, or is in."""
    whole = next((folder for folder in _WHOLE if within(path, folder)), None)
    return whole or (path if path in _SHARED else None)
