"""Let Python look as it does on macOS: its name, and without the functions that only Linux has.

Python imports this module at its start if its folder is on PYTHONPATH. It is no macOS: files, processes and the network
are those of Linux. tests/test_macos.py takes away /proc too.
"""

from __future__ import annotations

import fcntl
import os
import platform
import select
import signal
import socket
import sys
import sysconfig
import time

ONLY_LINUX = {
    os: (
        *("O_NOATIME", "O_PATH", "O_TMPFILE", "O_DIRECT", "memfd_create", "pidfd_open", "eventfd", "splice"),
        *("sched_getaffinity", "sched_setaffinity", "setresuid", "setresgid", "getresuid", "getresgid", "pipe2"),
        *("getxattr", "setxattr", "listxattr", "removexattr", "posix_fallocate", "posix_fadvise", "copy_file_range"),
    ),
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_ADD_SEALS", "F_OFD_SETLK"),
    select: ("epoll",),
    signal: ("SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX", "pthread_getcpuclockid", "sigtimedwait", "sigwaitinfo"),
    socket: ("SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "SO_BINDTODEVICE"),
    time: ("CLOCK_BOOTTIME",),
}
for module, names in ONLY_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sysconfig.get_config_vars()  # reads a file with the platform's name, which exists for Linux only, and keeps its values
sys.platform = "darwin"
platform.system = lambda: "Darwin"
