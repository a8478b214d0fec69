"""Kill a program at its system calls that change something, and find those before which a kill leaves other files.

The program is traced, with all that it starts, whatever their users, groups and sessions. A filter of system calls
stops it only before those that can change a file or another process, and before its own end. A kill leaves the files as
they are at that moment: one run with a look at the files before every such call tells which kills differ.

Machines run this module, too: it needs only the standard library, and Linux on x86-64 or aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

# The calls that change something: their numbers on x86-64 and on aarch64, which does not have the older ones.
_CHANGING = {
    **{"creat": (85, None), "openat2": (437, 437), "open_by_handle_at": (304, 265), "mknod": (133, None)},
    **{"mknodat": (259, 33), "bind": (49, 200), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47)},
    **{"rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "unlink": (87, None)},
    **{"unlinkat": (263, 35), "rmdir": (84, None), "mkdir": (83, None), "mkdirat": (258, 34), "symlink": (88, None)},
    **{"symlinkat": (266, 36), "link": (86, None), "linkat": (265, 37), "chown": (92, None), "lchown": (94, None)},
    **{"fchown": (93, 55), "fchownat": (260, 54), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53)},
    **{"fchmodat2": (452, 452), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None)},
    **{"utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "mount": (165, 40)},
    **{"umount2": (166, 39), "pivot_root": (155, 41), "kill": (62, 129), "tgkill": (234, 131)},
    **{"execve": (59, 221), "execveat": (322, 281)},
}
_ENDING = (231, 94)  # exit_group. Before it, the program has changed everything
# Calls that open a file, and which of their arguments says whether it can be changed.
_OPENING = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
_TO_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Calls that write, and which of their arguments is the descriptor. They change something if it is a file with a name.
_WRITING = {
    **{"write": ((1, 64), 0), "writev": ((20, 66), 0), "pwrite64": ((18, 68), 0), "pwritev": ((296, 70), 0)},
    **{"pwritev2": ((328, 287), 0), "sendfile": ((40, 71), 0), "splice": ((275, 76), 2)},
    **{"copy_file_range": ((326, 285), 2)},
}

# Constants of Linux: its headers have the same names.
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _IF_EQUAL, _IF_ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_TRACE, _ALLOW = 0x7FF00000, 0x7FFF0000
_CONTINUE, _SET_OPTIONS, _GET_SYSCALL_INFO = 7, 0x4200, 0x420E
_FORK, _VFORK, _CLONE, _EXEC, _STOP_AT_FILTER, _EXIT_KILL = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 7, 1 << 20
_FILTERED = 7  # the event of such a stop
_ENDS = 7  # what the filter passes on with a call of exit_group; with others, up to 6, or 0
_OF_THIS_THREAD = 0x60000000  # __WALL and __WNOTHREAD

# Becomes the program: arguments FILTER PATH ARGV... The filter is for itself and for all that it starts.
_STARTER = """\
import ctypes, os, signal, sys
libc, code = ctypes.CDLL(None), bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc.ptrace(0, 0, None, None)
os.kill(os.getpid(), signal.SIGSTOP)
program = ctypes.byref(Program(len(code) // 8, code))
if libc.prctl(22, 2, program, 0, 0):  # without root, a filter needs a process that cannot gain privileges
    libc.prctl(38, 1, 0, 0, 0)
    assert not libc.prctl(22, 2, program, 0, 0), "this machine cannot filter system calls"
os.execv(sys.argv[2], sys.argv[3:])
"""


def watch(
    argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], is_last: Callable[[int], bool]
) -> tuple[int, str]:
    """Run a program, and kill it before the first changing call for whose number ``is_last`` is true.

    Everything that it has started is killed with it. Returns the exit code and the end of the output.
    """
    # A tracer is a thread. One of its own waits for no other child of this process.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said, ThreadPoolExecutor(1) as apart:
        given.write(stdin)
        given.seek(0)
        code = apart.submit(_traced, argv, environment, is_last, stdin=given, stdout=said, stderr=said).result()
        said.seek(0)
        return code, said.read().decode(errors="replace")[-300:]


def calls(
    argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], look: Callable[[], object]
) -> tuple[int, list[int]]:
    """Run a program to its end. Return how many changing calls it makes, and before which a kill leaves other files.

    ``look`` returns the files; it is called before every such call. A kill before call 1 leaves them as they were.
    """
    seen: list[object] = []

    def go_on(_: int) -> bool:
        seen.append(look())
        return False

    code, said = watch(argv, stdin, environment, go_on)
    assert code == 0, said
    return len(seen), [at + 1 for at, files in enumerate(seen) if at == 0 or files != seen[at - 1]]


def killed_at(number: int, argv: Sequence[str], count: str = "/dev/null") -> list[str]:
    """Return the argv of a program that runs another one, and kills it before the changing call of this number.

    It passes on stdin and stdout, ends with 137 if it has killed, and writes the number of calls to the file ``count``.
    """
    text = Path(__file__).read_text(encoding="utf-8")
    return ["python3", "-I", "-S", "-c", f"{text}\nmain()", str(number), count, *argv]


def main() -> None:
    last, count, *argv = sys.argv[1:]
    numbers = [0]

    def is_last(number: int) -> bool:
        numbers.append(number)
        return number == int(last)

    code = _traced(argv, os.environ, is_last)
    Path(count).write_text(f"{numbers[-1]}\n", encoding="utf-8")
    sys.exit(code if code >= 0 else 128 - code)


def _traced(argv: Sequence[str], environment: Mapping[str, str], is_last: Callable[[int], bool], **streams: Any) -> int:
    """Run a program as ``watch`` does, and return its exit code. This thread must have no other children."""
    path = shutil.which(argv[0], path=environment.get("PATH"))
    assert path, f"there is no {argv[0]}"
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, _filter().hex(), path, *argv]
    process = subprocess.Popen(starter, env=dict(environment), process_group=0, **streams)
    os.waitpid(process.pid, 0)  # it has stopped itself
    _ptrace(_SET_OPTIONS, process.pid, 0, _FORK | _VFORK | _CLONE | _EXEC | _STOP_AT_FILTER | _EXIT_KILL)
    _ptrace(_CONTINUE, process.pid, 0, 0)
    number, known, killed = 0, {process.pid}, False
    try:
        while True:
            pid, status = os.waitpid(-1, _OF_THIS_THREAD)
            if not os.WIFSTOPPED(status):
                known.discard(pid)
                if pid == process.pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                continue
            is_new = pid not in known
            known.add(pid)
            if not killed and status >> 16 == _FILTERED and _changes(pid, process.pid):
                number += 1
                killed = is_last(number)
            if killed:  # also what was starting meanwhile
                _kill(known)
                continue
            # A new process begins with a stop of its tracer's; other signals are the program's.
            passed_on = 0 if status >> 16 or is_new else os.WSTOPSIG(status)
            _ptrace(_CONTINUE, pid, 0, passed_on)
    except ChildProcessError:  # all have ended
        return process.returncode
    finally:
        _kill(known)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _ptrace(request: int, pid: int, address: int, data: Any) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    library.ptrace.restype = ctypes.c_long
    if library.ptrace(request, pid, address, data) < 0 and ctypes.get_errno() != errno.ESRCH:  # it was killed meanwhile
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def _changes(pid: int, program: int) -> bool:
    """Whether a process that the filter has stopped is about to change something, or to end as the program itself."""
    about = ctypes.create_string_buffer(88)  # struct ptrace_syscall_info
    _ptrace(_GET_SYSCALL_INFO, pid, len(about), ctypes.addressof(about))
    arguments, (passed_on,) = struct.unpack_from("=6Q", about, 32), struct.unpack_from("=I", about, 80)
    if passed_on in (0, _ENDS):
        return passed_on != _ENDS or pid == program
    try:
        found = Path(f"/proc/{pid}/fd/{arguments[passed_on - 1]}").stat()
    except OSError:
        return True  # it cannot be told
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 0


def _filter() -> bytes:
    """Return the filter of system calls. It passes on which argument of a writing call is the descriptor, from 1."""
    place = list(_ARCHITECTURE).index(platform.machine())
    code = [_instruction(_LOAD, 4), _instruction(_IF_EQUAL, _ARCHITECTURE[platform.machine()], 1, 0)]
    code += [_instruction(_RETURN, _ALLOW), _instruction(_LOAD, 0)]
    for numbers in _CHANGING.values():
        code += _if_number(numbers[place], _instruction(_RETURN, _TRACE))
    code += _if_number(_ENDING[place], _instruction(_RETURN, _TRACE | _ENDS))
    for numbers, argument in _WRITING.values():
        code += _if_number(numbers[place], _instruction(_RETURN, _TRACE | argument + 1))
    for numbers, argument in _OPENING.values():
        flags = [_instruction(_LOAD, 16 + 8 * argument), _instruction(_IF_ANY, _TO_CHANGE, 0, 1)]
        code += _if_number(numbers[place], *flags, _instruction(_RETURN, _TRACE), _instruction(_RETURN, _ALLOW))
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _if_number(number: int | None, *then: bytes) -> list[bytes]:
    return [] if number is None else [_instruction(_IF_EQUAL, number, 0, len(then)), *then]


def _instruction(what: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", what, if_true, if_false, value)


def files_below(tops: Iterable[str]) -> dict[str, str]:
    """Return every file and folder at or below these paths, with owner, mode and content."""
    found: dict[str, str] = {}
    for top in filter(os.path.lexists, tops):
        found[top] = _described(Path(top))
        for where, folders, leaves in os.walk(top):
            for path in (Path(where, name) for name in (*folders, *leaves) if not name.endswith(".pyc")):
                found[str(path)] = _described(path)
    return found


def _described(path: Path) -> str:
    facts, content = path.lstat(), ""
    if stat.S_ISLNK(facts.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(facts.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"{facts.st_mode:o} {facts.st_uid}:{facts.st_gid} {content}".rstrip()
