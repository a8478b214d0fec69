"""Hold the lock on the state as long as this unit lives, and longer than this process. Needs nothing else of Paddock.

The arguments are the state and the id of its agent. systemd keeps a copy of the locked descriptor
(FileDescriptorStoreMax=) until this unit has stopped. The unit stops after the agent's units, which are ordered after
it. So when this process dies, the state stays locked while the agent stops, and the next process of this unit gets the
descriptor back.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import sys
import time

_KEPT = 3  # the descriptor that systemd passes
_BUSY, _REFUSED = 75, 78


def main() -> None:
    state, agent = sys.argv[1:3]
    own = f"{state}/.paddock"
    _expect_state_of(agent, state, own)
    path = f"{own}/lease"
    given = os.environ.get("LISTEN_FDS", "0") != "0"
    is_kept = given and _is_open_as(_KEPT, path)
    if given and not is_kept:
        os.close(_KEPT)
    lease = _KEPT if is_kept else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _end(_BUSY, f"the state of {_name(agent)} is held by {_text(f'{own}/holder').strip()}")
    with open(f"{own}/holder", "w") as holder:
        holder.write(f"{os.uname().nodename} since {time.strftime('%FT%TZ', time.gmtime())}\n")
    _tell_systemd(f"READY=1\nSTATUS=holds {state}", None if is_kept else lease)
    os.set_inheritable(lease, True)
    os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606


def _expect_state_of(agent: str, state: str, own: str) -> None:
    """Accept only a state of this agent. Version 1 of its record, of Paddock 0.1, has no line for the version."""
    found = dict(line.partition("=")[::2] for line in _text(f"{own}/identity").split("\n"))
    if found.get("version", "1") not in ("1", "2"):
        _end(_REFUSED, f"a newer Paddock wrote {own}/identity; use that version of Paddock or a newer one")
    other = found.get("agent", "")
    if other != agent:
        whose = (
            f"{_name(other)} of project {other.partition('_')[0]}" if "_" in other else f"{other}, which has no project"
        )
        _end(_REFUSED, f"{state} is the state of another agent: {whose}")


def _tell_systemd(ready: str, lease: int | None) -> None:
    """Say that the lock is held, and give systemd its descriptor, which systemd-notify can do only since version 254.

    If the file was replaced, the descriptor that systemd has kept is of the old file, and is removed. The sender must
    live until systemd has read the messages: it becomes the process that holds the lock.
    """
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        if lease is not None:
            systemd.send(b"FDSTOREREMOVE=1\nFDNAME=lease")
            given = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lease]))]
            systemd.sendmsg([b"FDSTORE=1\nFDNAME=lease"], given)
        systemd.send(os.fsencode(ready))


def _is_open_as(descriptor: int, path: str) -> bool:
    try:
        return os.path.sameopenfile(descriptor, os.open(path, os.O_RDONLY))
    except OSError:
        return False


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _name(agent: str) -> str:
    return agent.partition("_")[2] if "_" in agent else agent


def _end(code: int, message: str) -> None:
    print(f"paddock: {message}", flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
