"""One running Hermes Agent: conversations, at a pseudo-terminal and without one, and what the file adds to it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.hermes_file import PLUGIN, add, hermes_home
from agent.installed import install_code
from hostile.keyboard import Keyboard, keyboard
from paddock.demo import VERSION, Stage, process_stage, running_agent
from pvebox.standins.stage import stage_folder

pytestmark = pytest.mark.agent

ALLOWED = "world/other-writable permissions"  # as Hermes names commands of this kind
SETTINGS = {"command_allowlist": [ALLOWED], "plugins": {"enabled": ["hello"]}, "terminal": {"cwd": "."}}
DOCUMENTS = {
    "SOUL.md": "You keep the paddock.\n",
    "AGENTS.md": "Ask before you ride.\n",
    ".hermes/plugins/hello/plugin.yaml": "name: hello\nversion: '1'\ndescription: says hello\n",
    ".hermes/plugins/hello/__init__.py": PLUGIN.format(name="hello"),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        add(found, documents=DOCUMENTS, settings=SETTINGS)
        install_code(found)
        with running_agent(found):
            yield found


def paddock(stage: Stage, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *words]
    environment = dict(stage.environment)
    return subprocess.run(
        command, cwd=stage.folder, env=environment, input=given, capture_output=True, text=True, timeout=240
    )


def begin(person: Keyboard, stage: Stage, *words: str) -> None:
    """Start `paddock chat hermes` at the terminal."""
    command = shlex.join([sys.executable, "-m", "paddock", "chat", "hermes", *words])
    person.type(f"cd {stage.folder} && . ./environment && {command}\n")
    person.expect("Ctrl-D or /quit ends", seconds=120)
    person.expect("> ")


def say(person: Keyboard, text: str) -> None:
    time.sleep(0.5)  # until the line editor waits for keys
    person.screen = ""
    person.type(f"{text}\n")


def test_a_conversation_at_the_terminal(stage: Stage, tmp_path: Path) -> None:
    kept, deleted = tmp_path / "kept", tmp_path / "deleted"
    for folder in (kept, deleted):
        folder.mkdir()
    with keyboard() as person:
        begin(person, stage)

        # The answer arrives word by word.
        say(person, f"Slowly: alpha {' '.join('word' for _ in range(30))} omega")
        person.expect("  alpha", seconds=120)
        assert "omega" not in person.screen
        person.expect("omega", seconds=30)

        # The history of the session reaches the model.
        say(person, "Repeat my first message.")
        person.expect("  Slowly: alpha", seconds=120)

        # A tool is one line.
        say(person, "Remember: the gate code is 7421")
        person.expect("· memory", seconds=120)
        person.expect("I will remember: the gate code is 7421", seconds=120)

        # What is denied does not happen, what is approved does.
        say(person, f"Run: rm -rf {kept}")
        person.expect("hermes asks for approval: ", seconds=120)
        person.expect(f"rm -rf {kept}")
        person.expect("[d] deny: ")
        person.type("d\n")
        person.expect("The terminal says: ", seconds=120)
        assert kept.exists()
        say(person, f"Run: rm -rf {deleted}")
        person.expect("[d] deny: ", seconds=120)
        person.type("s\n")
        person.expect("The terminal says: ", seconds=120)
        assert not deleted.exists()

        # Ctrl-C stops the answer, and the conversation goes on.
        say(person, f"Slowly: beta {' '.join('word' for _ in range(90))} omega")
        person.expect("  beta", seconds=120)
        person.type("\x03")
        person.expect("stopped", seconds=30)
        assert "omega" not in person.screen

        say(person, "/quit")
        person.expect("to continue: paddock chat hermes --session chat-", seconds=30)
        session = person.screen.split("--session ")[1].split()[0].split("\x1b")[0]

        # A failure of the model is shown as one, and does not end the conversation.
        person.screen = ""
        begin(person, stage)
        say(person, "Fail with 400")
        person.expect("hermes did not answer: HTTP 400", seconds=120)
        say(person, "\x04")
        person.expect("to continue: ", seconds=30)

    listed = json.loads(paddock(stage, "sessions", "hermes", "--json").stdout)
    assert session in [each["id"] for each in listed][:2]
    assert session in paddock(stage, "sessions", "hermes").stdout

    # Another conversation continues it, without a terminal.
    for choice in (["--session", session], ["--continue"]):
        told = paddock(stage, "chat", "hermes", *choice, given="Repeat my first message.\n\n/quit\nnot read\n")
        assert (told.returncode, told.stdout.split(" word ")[0]) == (0, "Slowly: alpha"), told.stderr


def test_without_a_terminal_each_line_is_a_message(stage: Stage) -> None:
    told = paddock(stage, "chat", "hermes", given="one\nRepeat my first message.\n")
    assert (told.returncode, told.stdout) == (0, "ok: one\none\n"), told.stderr
    told = paddock(stage, "chat", "hermes", given="Fail with 400\nnever said\n")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("error: hermes did not answer: "), told.stderr


def test_without_a_terminal_nothing_is_approved(stage: Stage, tmp_path: Path) -> None:
    told = paddock(stage, "ask", "--stream", "hermes", f"Run: rm -rf {tmp_path}")
    assert told.returncode == 0
    assert "denied: nobody is asked without a terminal" in told.stderr
    assert tmp_path.exists()


def test_a_kind_of_command_that_the_file_allows_needs_no_approval(stage: Stage, tmp_path: Path) -> None:
    told = paddock(stage, "ask", "--stream", "hermes", f"Run: chmod 777 {tmp_path}")
    assert "approval" not in told.stderr
    assert tmp_path.stat().st_mode & 0o777 == 0o777


def test_ask_prints_the_answer_while_it_arrives(stage: Stage) -> None:
    words = ["ask", "--stream", "hermes", f"Slowly: alpha {' '.join('word' for _ in range(30))} omega"]
    with subprocess.Popen(
        [sys.executable, "-m", "paddock", *words],
        cwd=stage.folder,
        env=dict(stage.environment),
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        first = os.read(running.stdout.fileno(), 100_000)
        rest = running.stdout.read()
    assert first.startswith(b"alpha")
    assert b"omega" not in first
    assert rest.endswith(b"omega\n")
    assert running.returncode == 0


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_failure_of_the_model_is_an_error_of_ask(stage: Stage, stream: list[str]) -> None:
    told = paddock(stage, "ask", *stream, "hermes", "Fail with 400")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("error: hermes did not answer: "), told.stderr
    assert "Traceback" not in told.stderr


def test_a_session_that_does_not_exist_is_named(stage: Stage) -> None:
    told = paddock(stage, "chat", "hermes", "--session", "../x")
    assert (told.returncode, told.stderr.splitlines()[0]) == (2, "error: hermes has no session '../x'")


def test_status_tells_the_version_that_runs_and_the_one_in_the_file(stage: Stage) -> None:
    [status] = json.loads(paddock(stage, "status", "--json", "--set", "agents.hermes.version=0.18.2").stdout)
    assert (status["version"], status["version_in_file"]) == (VERSION, "0.18.2")


def test_hermes_does_not_change_its_own_configuration(stage: Stage) -> None:
    """All files belong to one account here, so locked files can be unlocked; the command still refuses."""
    config = ["exec", "hermes", "--", "hermes", "config"]
    assert paddock(stage, *config, "set", "model.default", "other").returncode == 1
    assert paddock(stage, *config, "get", "model.default").stdout.strip() == "stand-in"


def test_a_plugin_of_the_documents_is_loaded_and_a_profile_is_not_followed(stage: Stage) -> None:
    home = hermes_home(stage)
    # All files belong to one account here, so the agent can replace a locked file and select a profile.
    (home / "profiles/other").mkdir(parents=True)
    (home / "active_profile").chmod(0o600)
    (home / "active_profile").write_text("other\n")
    shown = stage.paddock("exec", "hermes", "--", "hermes", "config", "path").strip()
    assert shown == str(home / "config.yaml")
    assert stage.paddock("ask", "hermes", "Quote paddock").strip() == "You keep the paddock."
    assert stage.paddock("ask", "hermes", "Quote before you ride").strip() == "Ask before you ride."
    assert (home / "loaded-hello").exists()
    assert len(list((home / "skills").rglob("SKILL.md"))) == 73
    assert list((home / "profiles/other").iterdir()) == []
