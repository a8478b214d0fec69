"""Do something with the rights of an agent, in a child that never becomes another program.

The child gives up root without executing anything, so the agent cannot open it: not through /proc, not with a debugger.
The agent can stop it, so it has a deadline.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress

from paddock.onboard.program.programs import is_root
from paddock.onboard.program.refusal import FAILED, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SECONDS = 120
MOST = 8 << 20  # bytes of a result
_DEATH_SIGNAL, _DUMPABLE, _NO_NEW_PRIVILEGES = 1, 4, 38


def libc() -> Any:
    """Return the library of C, for what Python does not offer."""
    import ctypes

    return ctypes.CDLL(None)


def ids_of(account: str) -> tuple[int, int] | None:
    """Return uid and gid of an account of this machine, given by its name or number; None without an account."""
    import pwd

    try:
        found = pwd.getpwnam(account) if account else None
    except KeyError:
        if account.isdecimal():
            return int(account), int(account)
        raise Refusal(f"there is no account {account} on this machine", FAILED) from None
    return (found.pw_uid, found.pw_gid) if found else None


def as_agent(owner: tuple[int, int] | None, work: Callable[[], Any], *given: int, seconds: float = SECONDS) -> Any:
    """Return what a function returns in a child with these ids, as JSON can express it. None keeps the own ids.

    The child has the given descriptors, and no others of this process.
    """
    library = libc()  # the child may not be allowed to read it
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        _work(sink, lambda: _become(library, owner), work, given)
    os.close(sink)
    try:
        data = _read(source, time.monotonic() + seconds)
    finally:
        os.close(source)
        os.kill(child, signal.SIGKILL)  # it has ended, or has lost its chance
        os.waitpid(child, 0)
    try:
        answer = json.loads(data)
    except ValueError:
        raise Refusal(f"what was done as the agent did not end within {seconds:.0f} s, or was killed", FAILED) from None
    if "failed" in answer:
        raise Refusal(answer["failed"], FAILED)
    return answer["done"]


def _work(sink: int, become: Callable[[], None], work: Callable[[], Any], given: tuple[int, ...]) -> None:
    try:
        os.setsid()
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (1, 2, sink, *given):
                with suppress(OSError):
                    os.close(int(name))
        become()
        answer = {"done": work()}
    except OSError as error:
        answer = {"failed": f"{error.filename}: {error.strerror}"}
    except BaseException as error:  # noqa: BLE001  nothing of this child may go on in the parent's code
        answer = {"failed": f"{type(error).__name__}: {error}"}
    try:
        with os.fdopen(sink, "w") as answers:
            json.dump(answer, answers)
        os._exit(0)
    finally:
        os._exit(1)


def _become(library: Any, owner: tuple[int, int] | None) -> None:
    if owner is not None and is_root():
        uid, gid = owner
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    # After the change of ids, which clears the last of them.
    for option, value in ((_NO_NEW_PRIVILEGES, 1), (_DUMPABLE, 0), (_DEATH_SIGNAL, signal.SIGKILL)):
        library.prctl(option, value, 0, 0, 0)


def _read(source: int, end: float) -> bytes:
    data = b""
    while len(data) < MOST and select.select([source], [], [], max(end - time.monotonic(), 0))[0]:
        block = os.read(source, 1 << 16)
        if not block:
            break
        data += block
    return data
