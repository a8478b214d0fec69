"""A program can be killed before any system call that changes something; the calls after a changed file are found."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hostile.ground import as_root
from killed_script import calls, files_below, killed_at, watch

SCRIPT = """\
mkdir "$1/first"
true
(
    true
    mkdir "$1/second"
)
cat "$1/absent" 2>/dev/null || exit 0
"""
# Starts a process in a session of its own, which would go on after a kill of the process group.
APART = """\
import os, sys, time
os.mkdir(f"{sys.argv[1]}/parent")
if not os.fork():
    os.setsid()
    os.mkdir(f"{sys.argv[1]}/child")
    time.sleep(0.3)
    os.mkdir(f"{sys.argv[1]}/later")
    os._exit(0)
os.wait()
"""
# Becomes another user, and lets nobody read its memory.
AS_ANOTHER = """\
import ctypes, os, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
os.setresuid(54399, 54399, 54399)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
os.mkdir("made", dir_fd=folder)
"""
# What a program can do with the files FOLDER/one and FOLDER/two, and with the folder. Each is one call more.
CHANGES = {
    "create": "os.open('new', os.O_CREAT | os.O_WRONLY)",
    "empty": "os.open('one', os.O_WRONLY | os.O_TRUNC)",
    "write": "os.write(writable, b'x')",
    "write several": "os.writev(writable, [b'x', b'y'])",
    "write somewhere": "os.pwrite(writable, b'x', 3)",
    "copy": "os.copy_file_range(readable, writable, 1)",
    "send": "os.sendfile(writable, readable, 0, 1)",
    "truncate": "os.truncate('one', 0)",
    "truncate a descriptor": "os.ftruncate(writable, 0)",
    "allocate": "os.posix_fallocate(writable, 0, 100)",
    "rename": "os.rename('one', 'two')",
    "rename in a folder": "os.rename('one', 'three', src_dir_fd=folder, dst_dir_fd=folder)",
    "unlink": "os.unlink('one')",
    "unlink in a folder": "os.unlink('one', dir_fd=folder)",
    "make a folder": "os.mkdir('new')",
    "make a folder in a folder": "os.mkdir('new', dir_fd=folder)",
    "remove a folder": "os.rmdir('empty')",
    "symlink": "os.symlink('one', 'new')",
    "symlink in a folder": "os.symlink('one', 'new', dir_fd=folder)",
    "link": "os.link('one', 'new')",
    "pipe": "os.mkfifo('new')",
    "mode": "os.chmod('one', 0o644)",
    "mode of a descriptor": "os.fchmod(readable, 0o644)",
    "owner": "os.chown('one', -1, os.getgid())",
    "owner of a link": "os.lchown('one', -1, os.getgid())",
    "owner of a descriptor": "os.fchown(readable, -1, os.getgid())",
    "owner in a folder": "os.chown('one', -1, os.getgid(), dir_fd=folder)",
    "times": "os.utime('one', (1, 1))",
    "signal": "os.kill(os.getpid(), 0)",
}
NO_CHANGES = {
    "read": "os.read(readable, 1)",
    "open to read": "os.open('two', os.O_RDONLY)",
    "print": "print('words', flush=True)",
    "write to a pipe": "os.write(os.pipe()[1], b'x')",
    "look": "os.stat('one'), os.listdir('.')",
    "sync": "os.fsync(writable)",
}
PROGRAM = """\
import os, sys
os.chdir(sys.argv[1])
writable, readable, folder = os.open("one", os.O_WRONLY), os.open("two", os.O_RDONLY), os.open(".", os.O_RDONLY)
"""


def python(text: str, folder: Path) -> list[str]:
    return ["python3", "-I", "-S", "-c", text, str(folder)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_kill_leaves_other_files_only_after_a_call_that_changes_one(tmp_path: Path) -> None:
    argv = ["sh", "-c", SCRIPT, "test", str(tmp_path)]
    count, differing = calls(argv, b"", os.environ, lambda: files_below([str(tmp_path)]))
    assert len(differing) == 3  # before all, after each mkdir
    left = []
    for at in differing:
        for path in tmp_path.iterdir():
            path.rmdir()
        assert watch(argv, b"", os.environ, lambda number, at=at: number == at)[0] == -signal.SIGKILL  # type: ignore[misc]
        left.append(names(tmp_path))
    assert left == [[], ["first"], ["first", "second"]]
    assert count > differing[-1]


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_program_stops_before_a_change(tmp_path: Path, change: str) -> None:
    assert _stops(tmp_path, change) == _stops(tmp_path, "") + 1


@pytest.mark.parametrize("work", NO_CHANGES.values(), ids=list(NO_CHANGES))
def test_a_program_does_not_stop_before_what_changes_nothing(tmp_path: Path, work: str) -> None:
    assert _stops(tmp_path, work) == _stops(tmp_path, "")


def _stops(folder: Path, work: str) -> int:
    subprocess.run(["sh", "-c", 'cd "$1" && rm -rf * && mkdir empty && echo 1 >one && echo 2 >two', "sh", folder])
    return calls(python(f"{PROGRAM}{work}", folder), b"", os.environ, lambda: None)[0]


def test_what_a_program_has_started_is_killed_with_it(tmp_path: Path) -> None:
    argv = python(APART, tmp_path)
    _, differing = calls(argv, b"", os.environ, lambda: names(tmp_path))
    assert names(tmp_path) == ["child", "later", "parent"]
    for path in tmp_path.iterdir():
        path.rmdir()
    code, _ = watch(argv, b"", os.environ, lambda number: number == differing[2])  # the child is about to make `later`
    assert code == -signal.SIGKILL
    time.sleep(0.5)  # longer than the child would have waited
    assert names(tmp_path) == ["child", "parent"]


@as_root
def test_a_process_without_the_rights_of_its_tracer_stops_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    argv = python(AS_ANOTHER, tmp_path)
    count, differing = calls(argv, b"", os.environ, lambda: names(tmp_path))
    assert (count, len(differing)) == (3, 2)  # the start of Python, the folder, the end


def test_the_program_gets_its_input_and_its_exit_code_is_told(tmp_path: Path) -> None:
    never = ["sh", "-c", 'cat >"$1/read"; echo said; exit 3', "sh", str(tmp_path)]
    assert watch(never, b"given", os.environ, lambda _: False) == (3, "said\n")
    assert (tmp_path / "read").read_text() == "given"


def test_a_program_is_killed_on_another_machine(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'cat; mkdir "$1/first"; echo done; mkdir "$1/second"', "sh", str(tmp_path)]
    done = subprocess.run(killed_at(10_000, argv, f"{tmp_path}/count"), input=b"given ", capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"given done\n")
    count = int((tmp_path / "count").read_text())
    assert names(tmp_path) == ["count", "first", "second"]
    subprocess.run(["rm", "-r", tmp_path / "first", tmp_path / "second"], check=True)
    found = []
    for number in range(1, count + 1):
        done = subprocess.run(killed_at(number, argv), input=b"given ", capture_output=True)
        assert done.returncode == 128 + signal.SIGKILL
        found.append(names(tmp_path)[1:])
        subprocess.run(["rm", "-rf", tmp_path / "first", tmp_path / "second"], check=True)
    assert (found[0], found[-1]) == ([], ["first", "second"])
    assert ["first"] in found
