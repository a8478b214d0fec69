"""Find numbers that nothing on a machine uses: ports on loopback, and a user id."""

from __future__ import annotations

import grp
import pwd
import socket
from contextlib import ExitStack

from paddock.onboard.program.frozen import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

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


@frozen
class Vacant:
    uid: int
    ports: list[int]


@frozen
class FindVacant:
    """Find ports, and a number for an account. An account of that name keeps its number."""

    account: str
    count: int  # of the ports

    def perform(self, _: Payload) -> Vacant:
        return Vacant(user_id(self.account), ports(self.count))
