"""A stand-in repeats only what its request contains, and a fact counts as recalled only in its own words."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from paddock.channels.local import LocalGuest
from paddock.channels.onboard import begun, started
from paddock.onboard.standin import UNKNOWN, StandIn
from paddock.onboard.vacant import ports
from paddock.verbs import drill

FACT = "the gate code is 7421"
TEXTS = {
    ".hermes/memories/MEMORY.md": f"{FACT}\n§\nthe dog is called Ada, and she is afraid of thunder\n§\nshort\n",
    ".hermes/SOUL.md": "a line of the soul that every agent of this kind has had from its first day on\n",
}
RECALLED = [".hermes/memories/*.md"]


def test_facts_are_the_longest_lines_of_what_the_agent_puts_before_its_model() -> None:
    assert drill.facts_to_recall(TEXTS, RECALLED, []) == ["the dog is called Ada, and she is afraid of thunder", FACT]


def test_lines_that_the_file_gives_to_every_agent_are_no_facts() -> None:
    assert drill.facts_to_recall(TEXTS, RECALLED, [f"# notes\n{FACT}\n"]) == [
        "the dog is called Ada, and she is afraid of thunder"
    ]


def test_a_backup_without_texts_has_no_facts() -> None:
    assert drill.facts_to_recall({}, RECALLED, []) == []


@pytest.mark.parametrize("real_model", [True, False])
def test_a_question_does_not_contain_its_fact(real_model: bool) -> None:
    assert not drill.is_recalled(FACT, drill.question_about(FACT, real_model=real_model), real_model=real_model)


@pytest.mark.parametrize(
    ("answer", "by_a_model", "by_the_stand_in"),
    [
        (FACT, True, True),
        ("I know this: The **gate code** is `7421`.", True, False),
        ("Gate code: 7421; it is the one.", True, False),
        ("The gate code is 7422.", False, False),
        ("I do not know.", False, False),
        ("", False, False),
    ],
)
def test_a_model_may_change_the_form_of_a_fact(answer: str, by_a_model: bool, by_the_stand_in: bool) -> None:
    assert drill.is_recalled(FACT, answer, real_model=True) is by_a_model
    assert drill.is_recalled(FACT, answer, real_model=False) is by_the_stand_in


@contextmanager
def serving() -> Iterator[str]:
    port = ports(1)[0]
    with LocalGuest().piped(started()) as pipes:
        assert begun(pipes, StandIn(port)).said == ["ready"]
        yield f"http://127.0.0.1:{port}/v1"
        assert pipes.end().ok, "it ends with its standard input"


def said(url: str, *messages: tuple[str, str], stream: bool = False) -> str:
    body: dict[str, Any] = {"messages": [{"role": role, "content": text} for role, text in messages], "stream": stream}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        text = reply.read().decode()
    if not stream:
        return str(json.loads(text)["choices"][0]["message"]["content"])
    first = text.split("\n")[0].removeprefix("data: ")
    return str(json.loads(first)["choices"][0]["delta"]["content"])


@pytest.mark.parametrize("stream", [True, False])
def test_a_stand_in_sees_only_the_request(stream: bool) -> None:
    asked = ("user", drill.question_about(FACT, real_model=False))
    with serving() as url:
        assert said(url, ("system", f"You are kind.\n{FACT}\nBe short."), asked, stream=stream) == FACT
        assert said(url, ("system", "You are kind."), asked, stream=stream) == UNKNOWN
        assert said(url, ("system", "You are kind."), ("user", f"{FACT}\n{asked[1]}"), stream=stream) == UNKNOWN
        assert said(url, ("user", "Say ok."), stream=stream) == "ok"
        with urllib.request.urlopen(f"{url}/models", timeout=10) as reply:
            assert json.load(reply)["data"][0]["id"] == "stand-in"
