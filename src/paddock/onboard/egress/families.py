"""Become a program that has only sockets which the rules for an agent's connections see, or which leave no machine.

Runs on the machine and in containers, as root before it becomes the agent's account, so that no process of the agent
can change this one. Other kinds of sockets reach the machine's hypervisor (AF_VSOCK) or its radio, or let the kernel
send for a program, in packets without an owner (AF_SMC, AF_RXRPC). The arguments are the program and its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys

FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; as the units have them
# The number of an architecture, and of its system calls `socket` and `socketpair`.
MACHINES = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199)}
IO_URING_SETUP = 425  # on all architectures; a ring opens sockets that no filter sees
X32 = 0x40000000  # another set of calls on x86_64
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOWED, REFUSED = 0x7FFF0000, 0x00050000  # with a number of an error
EPERM, EAFNOSUPPORT = 1, 97
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # of struct seccomp_data
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def rules(architecture: int, *calls: int) -> list[tuple[int, int, int, int]]:
    """Return the instructions of the filter: code, jump if true, jump if false, and value."""
    families = [(EQUAL, len(FAMILIES) - at, 0, family) for at, family in enumerate(FAMILIES)]
    checked = [(EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, REFUSED | EPERM),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 1, 0, X32),
        (EQUAL, 0, 1, IO_URING_SETUP),
        (RETURN, 0, 0, REFUSED | EPERM),
        *checked,
        (RETURN, 0, 0, ALLOWED),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        *families,
        (RETURN, 0, 0, REFUSED | EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOWED),
    ]


def confine() -> None:
    """Filter the system calls of this process and of all that it starts."""
    machine = platform.machine() if sys.maxsize >> 32 else "a 32-bit one"
    if machine not in MACHINES:
        print("paddock: unusual sockets are not filtered on this architecture: " + machine, file=sys.stderr)
        return
    code = b"".join(struct.pack("=HBBI", *rule) for rule in rules(*MACHINES[machine]))
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong]
    if prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) or prctl(PR_SET_SECCOMP, FILTER, program, 0, 0):
        sys.exit("paddock: the kinds of sockets cannot be limited: " + os.strerror(ctypes.get_errno()))


def main() -> None:
    # Python ignores two signals, and may have set a variable of the locale. The program gets what this one was given.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as file:  # pathlib takes long to load
        given = dict(each.split(b"=", 1) for each in file.read().split(b"\0") if b"=" in each)
    confine()
    os.execvpe(sys.argv[1], sys.argv[1:], given)  # noqa: S606


if __name__ == "__main__":
    main()
