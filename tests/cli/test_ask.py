"""What `ask` and `chat` refuse before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  hermes: {kind: hermes, version: 0.19.0, place: here, runtime: process}
  web: {kind: service, place: here, runtime: process, command: [sleep, inf]}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize("prompt", ["", "  \n"])
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_an_empty_prompt_is_refused_with_a_sentence(paddock: Any, file: str, prompt: str, stream: list[str]) -> None:
    said = paddock("ask", *stream, "-f", file, "hermes", prompt)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: the prompt is empty\n hint: write a question:")


@pytest.mark.parametrize("words", [["chat"], ["sessions"]])
def test_a_kind_without_conversations_is_named(paddock: Any, file: str, words: list[str]) -> None:
    said = paddock(*words, "-f", file, "web")
    assert (said.code, said.err) == (2, "error: web is a service, which holds no conversations\n")


def test_an_agent_that_does_not_run_is_not_sent_its_key(paddock: Any, file: str) -> None:
    said = paddock("chat", "-f", file, "hermes")
    assert said.code == 1
    assert said.err.splitlines()[0] == "error: hermes is not running"


def test_one_session_is_chosen_in_one_way(paddock: Any, file: str) -> None:
    said = paddock("chat", "-f", file, "hermes", "--continue", "--session", "x")
    assert (said.code, said.err.splitlines()[0]) == (
        2,
        "error: --session and --continue are two ways to choose a session; keep one",
    )
