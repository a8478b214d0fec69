from __future__ import annotations

import subprocess
import sys
import time

import pytest

from paddock.base import process
from paddock.base.process import CommandFailed, DeadlinePassed, ProgramMissing


def test_the_error_names_a_missing_program() -> None:
    with pytest.raises(ProgramMissing, match="no-such-program is not installed"):
        process.run(["no-such-program"])


def test_a_process_is_stopped_at_its_deadline() -> None:
    with pytest.raises(DeadlinePassed, match="did not end within"):
        process.run(["sleep", "5"], deadline=0.1)


def test_the_error_of_a_failed_command_shows_the_end_of_its_output() -> None:
    result = process.run(["sh", "-c", "seq 30 >&2; exit 3"])
    error = CommandFailed("counting", result)
    assert error.message.startswith("counting failed with code 3:\n19\n")


def test_stdin_reaches_the_program() -> None:
    assert process.run(["cat"], stdin=b"hello").out == "hello"


def test_ctrl_c_reaches_a_program_in_its_own_session_started_by_another_thread() -> None:
    program = """
import os, signal, threading
from concurrent.futures import ThreadPoolExecutor
from paddock import cli
from paddock.base import process
signal.signal(signal.SIGINT, cli._interrupted)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with ThreadPoolExecutor() as pool:
        running = pool.submit(process.run, ["sleep", "50"], own_session=True)
except KeyboardInterrupt:
    print(running.result().code)
"""
    start = time.monotonic()
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stdout == "-2\n", result.stderr
    assert time.monotonic() - start < 30


def test_a_program_in_its_own_session_is_killed_with_its_children() -> None:
    with pytest.raises(DeadlinePassed):
        process.run(["sh", "-c", "sleep 54.321 & wait"], deadline=0.5, own_session=True)
    assert subprocess.run(["pgrep", "-f", "^sleep 54.321"], stdout=subprocess.DEVNULL).returncode == 1
