from __future__ import annotations

import subprocess
import sys
import time

import pytest

from paddock import process
from paddock.process import CommandFailed, DeadlinePassed, ProgramMissing


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ProgramMissing, match="no-such-program is not installed"):
        process.run(["no-such-program"])


def test_a_deadline_is_kept() -> None:
    with pytest.raises(DeadlinePassed, match="did not end within"):
        process.run(["sleep", "5"], deadline=0.1)


def test_a_failure_shows_the_end_of_what_was_said() -> None:
    result = process.run(["sh", "-c", "seq 30 >&2; exit 3"])
    error = CommandFailed("counting", result)
    assert error.message.startswith("counting failed with code 3:\n19\n")


def test_stdin_reaches_the_program() -> None:
    assert process.run(["cat"], stdin=b"hello").out == "hello"


def test_ctrl_c_reaches_what_runs_apart_in_any_thread() -> None:
    program = """
import os, signal, threading
from concurrent.futures import ThreadPoolExecutor
from paddock import cli, process
signal.signal(signal.SIGINT, cli._interrupted)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with ThreadPoolExecutor() as pool:
        running = pool.submit(process.run, ["sleep", "50"], apart=True)
except KeyboardInterrupt:
    print(running.result().code)
"""
    start = time.monotonic()
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert said.stdout == "-2\n", said.stderr
    assert time.monotonic() - start < 30


def test_what_runs_apart_is_ended_with_all_it_started() -> None:
    with pytest.raises(DeadlinePassed):
        process.run(["sh", "-c", "sleep 54.321 & wait"], deadline=0.5, apart=True)
    assert subprocess.run(["pgrep", "-f", "^sleep 54.321"], stdout=subprocess.DEVNULL).returncode == 1
