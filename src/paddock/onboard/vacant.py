"""Find numbers that nothing on a machine uses: ports on loopback, and a user id. Runs on the machine.

The arguments are the name of an account and how many ports are wanted. An account of that name keeps its number.
"""

from __future__ import annotations

import grp
import json
import pwd
import socket
import sys
from contextlib import ExitStack

HIGHEST = 59999  # what the file accepts as a user id


def ports(count: int) -> list[int]:
    """Return ports that no program listens on at the moment."""
    with ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


def user_id(account: str) -> int:
    """Return the number of an account, or one that no account and no group has."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        taken = {each.pw_uid for each in pwd.getpwall()} | {each.gr_gid for each in grp.getgrall()}
        return next(number for number in range(HIGHEST, 1000, -1) if number not in taken)


def main() -> None:
    json.dump({"uid": user_id(sys.argv[1]), "ports": ports(int(sys.argv[2]))}, sys.stdout)
