"""A person talks to a hostile agent: it can print anything, and ask for anything."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import paddock
from hostile.keyboard import keyboard
from hostile.talker import HANG, WAIT, Talker, dialogue, talker

DONE = {"event": "run.completed", "output": ""}


def said(*pieces: str) -> list[dict[str, Any]]:
    return [{"event": "message.delta", "delta": piece} for piece in pieces]


def without_terminal(folder: Path, agent: Talker, lines: str, before: str = "") -> tuple[str, str]:
    """Talk to the agent without a terminal; return stdout and stderr."""
    program = dialogue(folder, agent, terminal=False, before=before)
    environment = {**os.environ, "PYTHONPATH": str(Path(paddock.__file__).parent.parent)}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, env=environment)
    return done.stdout, done.stderr


def piped(folder: Path, *events: dict[str, Any] | str, before: str = "") -> tuple[str, str]:
    with talker(*events) as agent:
        return without_terminal(folder, agent, "hello\n", before)


def test_escape_sequences_are_shown_as_text_also_when_they_arrive_in_pieces(tmp_path: Path) -> None:
    out, err = piped(
        tmp_path,
        *said("a\x1b", "[2", "Jb\x1b]0;title\x07", "\rc\x9b31m", "\u202ed"),
        {"event": "tool.started", "tool": "x\x1b[2J", "preview": "y\nerror: z\x1b[1A"},
        {"event": "run.failed", "error": "\x1b[31mno\nerror: forged"},
    )
    assert "a\\x1b[2Jb\\x1b]0;title\\x07\\x0dc\\u009b31m\\u202ed\n" in out
    assert "· x\\x1b[2J: y\\nerror: z\\x1b[1A" in err
    assert "bee did not answer: \\x1b[31mno\\nerror: forged" in out
    assert not any(ord(letter) < 32 and letter != "\n" for letter in out + err)


def test_a_secret_that_arrives_in_pieces_is_masked(tmp_path: Path) -> None:
    out, _ = piped(
        tmp_path,
        *said("it is top-se", "cret-", "value", ", or top-sec", "ond"),
        DONE,
        before='Secret("top-secret-value")',
    )
    assert "it is •••, or top-second\n" in out


@pytest.mark.parametrize("line", ["no json", "[5]", "end"])
def test_a_stream_that_is_not_understood_is_an_error_without_a_traceback(tmp_path: Path, line: str) -> None:
    out, err = piped(tmp_path, line)
    assert "error: bee did not answer: " in out
    assert "Traceback" not in err


def test_without_a_terminal_nothing_is_approved(tmp_path: Path) -> None:
    asked = {"event": "approval.request", "command": "rm -rf /", "description": "delete", "choices": ["once", "deny"]}
    with talker(asked, WAIT, DONE) as agent:
        _, err = without_terminal(tmp_path, agent, "x\no\n")
        assert agent.bodies("/approval") == [{"choice": "deny"}, {"choice": "deny"}]
    assert "denied: nobody is asked without a terminal; `paddock chat bee` asks" in err


APPROVAL = {
    "event": "approval.request",
    "command": "rm -rf x\nerror: forged\x1b[2J",
    "description": "recursive delete",
    "pattern_key": "rm",
    "choices": ["once", "session", "always", "deny"],
}


def test_a_question_is_not_answered_by_what_was_typed_before_it(tmp_path: Path) -> None:
    slow = {**APPROVAL, "command": "sleep"}
    with keyboard() as person, talker(*said("thinking"), WAIT, slow, WAIT, DONE) as agent:
        person.type(f"{sys.executable} {dialogue(tmp_path, agent, terminal=True)}\n")
        person.expect("> ")
        person.type("go\n")
        person.expect("thinking")
        person.type("o\n")  # typed while nothing was asked
        time.sleep(0.3)
        agent.told.set()
        person.expect("[o] once")
        time.sleep(0.5)
        assert agent.bodies("/approval") == []
        person.screen = ""
        person.type("d\n")
        person.expect("> ")
        assert agent.bodies("/approval") == [{"choice": "deny"}]


def test_a_decision_for_the_session_holds_later_and_the_whole_command_is_shown(tmp_path: Path) -> None:
    with keyboard() as person, talker(APPROVAL, WAIT, DONE) as agent:
        person.type(f"{sys.executable} {dialogue(tmp_path, agent, terminal=True)}\n")
        person.expect("> ")
        person.type("go\n")
        person.expect("bee asks for approval: recursive delete")
        person.expect("      rm -rf x")
        person.expect("      error: forged\\x1b[2J")
        person.expect("[o] once, [s] in this session, [a] always, [d] deny: ")
        person.type("maybe\n")
        time.sleep(0.3)
        person.type("s\n")
        for _ in range(50):
            if agent.bodies("/approval"):
                break
            time.sleep(0.1)
        person.screen = ""
        person.type("again\n")
        person.expect("approved, as before in this session")
        person.type("/quit\n")
        person.expect("the conversation has ended.")
        assert agent.bodies("/approval") == [{"choice": "session"}, {"choice": "session"}]


def test_ctrl_c_stops_the_answer_and_ctrl_d_ends_the_conversation(tmp_path: Path) -> None:
    stopped = {"event": "run.cancelled"}
    with keyboard() as person, talker(*said("one two"), WAIT, stopped) as agent:
        person.type(f"{sys.executable} {dialogue(tmp_path, agent, terminal=True)}\n")
        person.expect("> ")
        time.sleep(0.5)  # until the line editor waits for keys
        person.type("\x03")
        person.expect("(Ctrl-D or /quit ends the conversation)")
        person.type("go\n")
        person.expect("  one two")
        person.type("\x03")
        person.expect("stopped")
        assert agent.bodies("/stop") == [{}]
        time.sleep(0.5)
        person.type("\x04")
        person.expect("the conversation has ended.")


def test_ctrl_c_at_a_question_denies_it_and_stops_the_answer(tmp_path: Path) -> None:
    with keyboard() as person, talker(APPROVAL, WAIT, {"event": "run.cancelled"}) as agent:
        person.type(f"{sys.executable} {dialogue(tmp_path, agent, terminal=True)}\n")
        person.expect("> ")
        person.type("go\n")
        person.expect("[d] deny: ")
        time.sleep(0.5)  # until the line editor waits for keys
        person.type("\x03")
        person.expect("stopped")
        assert (agent.bodies("/stop"), agent.bodies("/approval")) == ([{}], [])


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_stop(tmp_path: Path) -> None:
    with keyboard() as person, talker(*said("on and on"), HANG) as agent:
        person.type(f"{sys.executable} {dialogue(tmp_path, agent, terminal=True)}\n")
        person.expect("> ")
        person.type("go\n")
        person.expect("on and on")
        person.type("\x03")
        time.sleep(0.5)
        person.type("\x03")
        person.expect("left.", seconds=5)
