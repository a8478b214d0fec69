"""The command itself: at a terminal, without one, and where no sandbox can run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from terminal_user import at_a_terminal

INIT = [sys.executable, "-m", "paddock", "init"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "farm"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("\x03", "error: stopped; nothing was written"),
        ("\x04", "error: the input ended before all questions were answered; nothing was written"),
    ],
    ids=["ctrl-c", "ctrl-d"],
)
def test_the_keys_that_stop_leave_nothing(folder: Path, typed: str, said: str) -> None:
    with at_a_terminal(INIT, folder, {**os.environ, "TERM": "xterm"}) as user:
        user.answer("Number or name [pet-and-cattle]: ", "1")
        user.wait_for("like 192.168.1.10: ")
        time.sleep(1)  # until it reads: the library would miss Ctrl-C just before that
        user.type(typed)
        assert user.end() == 1
    assert said in user.shown
    assert "Traceback" not in user.shown
    assert list(folder.iterdir()) == []


def test_a_key_is_not_shown_while_it_is_typed(folder: Path) -> None:
    flags = ["--host", "here", "--runtime", "process", "--provider", "openrouter"]
    with at_a_terminal([*INIT, *flags], folder, {**os.environ, "TERM": "xterm"}) as user:
        try:
            user.wait_for("API key of the model (not shown): ")
        except AssertionError:
            pytest.skip("this machine runs agents under systemd")
        user.type("a key with blanks\n")
        user.wait_for("API key of the model (not shown): ")
        time.sleep(1)  # until it reads: the library would miss Ctrl-C just before that
        user.type("\x03")
        assert user.end() == 1
    assert "blanks" not in user.shown


def test_without_a_terminal_the_error_names_the_flag(folder: Path) -> None:
    said = subprocess.run(INIT, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert said.returncode == 2
    assert "error: the address of the node is missing: give it with --url" in said.stderr
    assert list(folder.iterdir()) == []


def test_what_cannot_be_written_is_said_before_the_first_question(folder: Path) -> None:
    (folder / "file").write_text("")
    (folder / "foreign").mkdir()
    (folder / "foreign/secrets.age").write_text("not for you")
    for name, reason in (("file/farm", "cannot write to "), ("foreign", "secrets.age is encrypted")):
        said = subprocess.run([*INIT, name], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert said.returncode == 2
        assert reason in said.stderr
        assert "Where should" not in said.stderr


def test_where_no_container_can_run_the_sandbox_says_why(folder: Path) -> None:
    environment = {**os.environ, "PATH": "/nonexistent", "XDG_STATE_HOME": str(folder.parent)}
    said = subprocess.run([*INIT, "--sandbox"], cwd=folder, env=environment, capture_output=True, text=True)
    assert said.returncode == 1
    assert "error: no sandbox can run here: Real containers need " in said.stderr
    assert "--host here" in said.stderr
    assert list(folder.iterdir()) == []


def test_a_sandbox_takes_no_other_place(folder: Path) -> None:
    words = [*INIT, "--sandbox", "--host", "here", "--url", "node"]
    said = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (said.returncode, list(folder.iterdir())) == (2, [])
    assert "--sandbox answers --host, --url itself" in said.stderr


def test_an_example_takes_no_answers(folder: Path) -> None:
    words = [*INIT, "--example", "native", "--host", "here"]
    said = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (said.returncode, list(folder.iterdir())) == (2, [])
    assert "--example takes no answers" in said.stderr
