"""A helper program that runs a command in a jail with the containers' ids, or mounts inside a running container.

The server starts this file as a separate process, because forking and changing namespaces in a process with threads
can deadlock. It imports only the standard library.

The jail is for tar. Containers choose the names in the trees that tar reads and writes, and they can put a symlink
anywhere. In the jail no name leads to a file of the host, except to its programs, which containers' ids cannot change.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_RDONLY = 1, 4, 1
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
JAIL = "/run"  # covered by the jail only in the mount namespace of this process
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

libc = ctypes.CDLL(None, use_errno=True)


def require(result: int) -> int:
    """Return the result of a system call, or raise its error."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def mount(source: str, target: str, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    """Mount, or raise the error of the system call."""
    require(libc.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), options))


def build_jail(trees: list[str]) -> None:
    """Mount a root directory that has only the host's programs, and the given trees as /0, /1 and so on."""
    require(libc.unshare(CLONE_NEWNS))
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # Open the directories before the jail covers their paths.
    sources = {str(number): os.open(tree, os.O_PATH | os.O_DIRECTORY) for number, tree in enumerate(trees)}
    links = {}
    for name in PROGRAMS:
        if Path("/", name).is_symlink():
            links[name] = Path("/", name).readlink()
        elif Path("/", name).is_dir():
            sources[name] = os.open(f"/{name}", os.O_PATH | os.O_DIRECTORY)
    mount("none", JAIL, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755")
    for name, target in links.items():
        Path(JAIL, name).symlink_to(target)
    for name, source in sources.items():
        Path(JAIL, name).mkdir()
        mount(f"/proc/self/fd/{source}", f"{JAIL}/{name}", None, MS_BIND | MS_REC)
        os.close(source)


def run_mapped(first: int, count: int, argv: list[str]) -> int:
    """Run a program in the jail, as root of a new user namespace, and return its exit code."""
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    # Stop if the server is killed.
    require(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    child = os.fork()
    if child == 0:
        os.close(ready_read)
        os.close(go_write)
        require(libc.unshare(CLONE_NEWUSER))
        os.close(ready_write)
        os.read(go_read, 1)
        os.setgroups([])
        os.setgid(0)
        os.setuid(0)
        os.chroot(JAIL)
        os.chdir("/")
        # Set again, because the change of ids clears this setting.
        require(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell
    os.close(ready_write)
    os.read(ready_read, 1)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{child}/{name}").write_text(f"0 {first} {count}\n", encoding="ascii")
    os.write(go_write, b"x")
    os.close(go_read)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def mount_inside(pid: int, source: str, target: str, read_only: bool) -> None:
    """Copy a mount of this mount namespace into a running container's."""
    tree = require(libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(source), OPEN_TREE_CLONE))
    if read_only:
        attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
        require(libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, 32))
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    require(libc.setns(namespace, CLONE_NEWNS))
    os.fchdir(root)
    os.chroot(".")
    Path(target).mkdir(parents=True, exist_ok=True)
    require(libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH))


def main(argv: list[str]) -> int:
    """Run `mapped FIRST COUNT TREE… -- PROGRAM…` or `mount PID SOURCE TARGET rw|ro`."""
    match argv:
        case ["mapped", first, count, *words]:
            end = words.index("--")
            build_jail(words[:end])
            return run_mapped(int(first), int(count), words[end + 1 :])
        case ["mount", pid, source, target, access]:
            try:
                mount_inside(int(pid), source, target, access == "ro")
            except OSError as error:
                sys.stderr.write(f"{error.strerror}\n")
                return 1
            return 0
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
