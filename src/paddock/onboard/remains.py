"""Find and end what is left of an agent's account on its machine. Needs nothing else of Paddock.

A process that has left the agent's units, by whatever way, keeps the account. So the unit of the lease runs this
program when it has stopped, before systemd releases the lock on the state. The argument is the name of the account.

Containers of others, and services that their owner runs with the same number, are not the agent's.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

MADE = "Paddock agent"  # the beginning of the comment of an account that Paddock made
_FIRST = 1000  # uid of an account of a person or an agent
_SECONDS = 60
_ROUNDS = 20  # of stopping, after which processes are killed whether or not all of them are stopped
_UID = re.compile(r"(?m)^Uid:\s+(.+)$")
_STATE = re.compile(r"(?m)^State:\s+(\w)")
_NAME = re.compile(r"(?m)^Name:\s+(.*)$")
# Parts of the names of cgroups in which engines and LXC have containers.
_CONTAINER = re.compile(r"[0-9a-f]{64}|^lxc|^machine-|^libpod")


class Left:
    """A process of the account."""

    def __init__(self, pid: int, uid: str, status: str, unit: str) -> None:
        self.pid = pid
        self.uid = uid
        self.name = "".join(_NAME.findall(status)[:1])
        self.is_stopped = _STATE.findall(status)[:1] == ["T"]
        self.unit = unit  # the last part of the name of its cgroup


def left(account: str) -> list[Left]:
    """Return the processes of an account that Paddock made; none of an account of somebody else."""
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        return []
    if not entry.pw_gecos.startswith(MADE):
        return []
    owners = _Owners(entry)
    found = (_process(int(name), entry.pw_uid, owners) for name in os.listdir("/proc") if name.isdecimal())
    return [each for each in found if each]


def processes() -> dict[int, Left]:
    """Return a process of each account that an agent could have, in the machine's own namespace of users."""
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            uid = os.stat(f"/proc/{name}").st_uid
            if uid >= _FIRST and uid not in found and (each := _process(int(name), uid, None)):
                found[uid] = each
    return found


def _process(pid: int, uid: int, owners: _Owners | None) -> Left | None:
    with suppress(OSError):
        status = _text(f"/proc/{pid}/status")
        uids = "".join(_UID.findall(status)[:1]).split()
        if str(uid) not in uids or _STATE.findall(status)[:1] == ["Z"]:
            return None
        if os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
            return None
        # Without a cgroup namespace, the cgroups of a machine that is a container begin with that container's name.
        machine = _cgroup(1).removesuffix("/init.scope").removesuffix("/")
        parts = _cgroup(pid).removeprefix(machine).split("/")
        if owners is None or not owners.have(parts):
            return Left(pid, str(uid), status, parts[-1])
    return None


class _Owners:
    """Who else may have processes with the number of the account."""

    def __init__(self, account: pwd.struct_passwd) -> None:
        self.names = (account.pw_name, str(account.pw_uid))
        self.known: dict[str, bool] = {}

    def have(self, parts: list[str]) -> bool:
        """Whether a cgroup is a container's, or of a service that its owner runs as this account."""
        if any(_CONTAINER.search(part) for part in parts):
            return True
        unit = next((part for part in reversed(parts) if part.endswith(".service")), "")
        if not unit or unit.startswith(("paddock-", "user@")):
            return False
        if unit not in self.known:
            words = ["systemctl", "show", "--property", "User", "--value", "--", unit]
            shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            self.known[unit] = shown in self.names
        return self.known[unit]


def end(account: str) -> list[Left]:
    """End all processes of an account; return those that are left.

    All are stopped first. Stopped processes cannot start others, and count against the limit of those that try.
    """
    until, rounds = time.monotonic() + _SECONDS, 0
    found = left(account)
    while found and time.monotonic() < until:
        running, rounds = [each for each in found if not each.is_stopped], rounds + 1
        stopping = bool(running) and rounds < _ROUNDS
        for each in running if stopping else found:
            _send(each, signal.SIGSTOP if stopping else signal.SIGKILL)
        time.sleep(0.02)
        found = left(account)
    return found


def _send(process: Left, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            # The handle is of the process that has the number now: is it still one of the account?
            if process.uid in "".join(_UID.findall(_text(f"/proc/{process.pid}/status"))[:1]).split():
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _cgroup(pid: int) -> str:
    return _text(f"/proc/{pid}/cgroup").rstrip("\n").rpartition(":")[2]


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read(1 << 16)


def main() -> None:
    found = left(sys.argv[1])
    if not found:
        return
    names = ", ".join(f"{each.name} in {each.unit}" for each in found[:5])
    print(f"paddock: ends {len(found)} processes of {sys.argv[1]} outside its units: {names}"[:500], flush=True)
    if end(sys.argv[1]):
        sys.exit(f"paddock: processes of {sys.argv[1]} are left and do not end")


if __name__ == "__main__":
    main()
