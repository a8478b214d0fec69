"""The stand-in model: each answer depends only on its request."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pvebox.standins.model import UNKNOWN, answer, chunks, delay_seconds, pause_seconds, serve

Json = dict[str, Any]

FENCE = "═" * 46
MEMORY_TOOL: Json = {"type": "function", "function": {"name": "memory", "parameters": {"type": "object"}}}
STORED: Json = {"success": True, "done": True, "target": "memory", "message": "Entry added."}


def memory(*entries: str) -> str:
    """Return a system prompt as Hermes 0.19.0 writes it, with these entries in its memory section."""
    title = "MEMORY (your personal notes) [1% — 43/2,200 chars]"
    section = f"{FENCE}\n{title}\n{FENCE}\n" + "\n§\n".join(entries) + "\n\n" if entries else ""
    return f"You are Hermes Agent. Save facts using the memory tool.\n\n{section}Conversation started: Sunday"


def request(prompt: str, *then: Json, system: str = "", before: tuple[Json, ...] = ()) -> Json:
    messages = [{"role": "system", "content": system or memory()}, *before, {"role": "user", "content": prompt}]
    return {"model": "m", "messages": [*messages, *then], "tools": [MEMORY_TOOL]}


def text(asked: Json) -> str:
    choice = answer(asked)["choices"][0]
    assert choice["finish_reason"] == "stop"
    said = choice["message"]["content"]
    assert isinstance(said, str)
    return said


def tool_turn(result: Json | str, tool: str = "memory") -> tuple[Json, Json]:
    """Return the messages of a tool call and its result, as they come in the agent's next request."""
    function = {"name": tool, "arguments": '{"action":"add"}'}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "function": function}]}
    content = result if isinstance(result, str) else json.dumps(result)
    return call, {"role": "tool", "name": tool, "tool_call_id": "call_1", "content": content}


@pytest.mark.parametrize(
    "prompt",
    [
        "Remember: the gate code is 7421",
        "remember that the gate code is 7421",
        "Please remember that the gate code is 7421",
        "Hello.\nRemember: the gate code is 7421",
    ],
)
def test_the_prompt_remember_calls_the_memory_tool(prompt: str) -> None:
    choice = answer(request(prompt))["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert call["type"] == "function"
    assert call["function"]["name"] == "memory"
    wanted = {"action": "add", "target": "memory", "content": "the gate code is 7421"}
    assert json.loads(call["function"]["arguments"]) == wanted


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (STORED, "I will remember: the gate code is 7421"),
        ({"success": False, "error": "Memory is full."}, "I could not remember that: Memory is full."),
        ("Permission denied", "I could not remember that: Permission denied"),
        (STORED | {"staged": True}, "It is not stored yet, it waits for approval: the gate code is 7421"),
    ],
)
def test_the_reply_to_remember_reports_the_result_of_the_tool(result: Json | str, said: str) -> None:
    assert text(request("Remember: the gate code is 7421", *tool_turn(result))) == said


def test_the_result_of_an_earlier_tool_call_is_not_used_for_a_later_prompt() -> None:
    before = ({"role": "user", "content": "Remember: the sky is blue"}, *tool_turn(STORED))
    asked = request("Remember: the gate code is 7421", before=before)
    assert answer(asked)["choices"][0]["finish_reason"] == "tool_calls"


def test_the_reply_says_that_the_memory_tool_is_missing() -> None:
    asked = request("Remember: the gate code is 7421") | {"tools": []}
    assert text(asked) == "I cannot remember that: no memory tool was offered."


def test_the_prompt_write_calls_the_file_tool() -> None:
    tool = {"type": "function", "function": {"name": "write_file"}}
    asked = request("Write /data/note: big disks") | {"tools": [tool]}
    (call,) = answer(asked)["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "write_file"
    assert json.loads(call["function"]["arguments"]) == {"path": "/data/note", "content": "big disks\n"}
    reply = request("Write /data/note: big disks", *tool_turn("no space left", "write_file"))
    assert text(reply) == "The tool says: no space left"
    assert text(request("Write /data/note: big disks")) == "I cannot write that: no tool for files was offered."


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is the gate code?", "the gate code is 7421"),
        ("What's the code of the gate?", "the gate code is 7421"),
        ("What do you remember about the gate code?", "the gate code is 7421"),
        ("Do you remember the gate code?", "the gate code is 7421"),
        ("Who is Ada?", "Ada feeds the horses."),
        ("What is the barn code?", UNKNOWN),
        ("What is 7422?", UNKNOWN),
        ("What is the?", UNKNOWN),
    ],
)
def test_a_question_is_answered_from_the_memory_section(question: str, said: str) -> None:
    system = memory("Ada feeds the horses. Ben mends fences.", "the gate code is 7421")
    assert text(request(question, system=system)) == said


def test_the_memory_and_the_profile_of_the_user_are_both_sections() -> None:
    profile = f"{FENCE}\nUSER PROFILE (who the user is) [2% — 23/1,375 chars]\n{FENCE}\nThe user has a dog."
    both = f"{memory('the gate code is 7421')}\n\n{profile}"
    assert text(request("What is the gate code?", system=both)) == "the gate code is 7421"
    assert text(request("What is the dog of the user?", system=both)) == "The user has a dog."


def test_the_newest_matching_memory_is_quoted() -> None:
    system = memory("the gate code is 1111", "the gate code is 7421")
    assert text(request("What is the gate code?", system=system)) == "the gate code is 7421"


@pytest.mark.parametrize(
    "asked",
    [
        request("What is the gate code?"),
        request("The gate code is 7421. What is the gate code?"),
        request("What is the gate code 7421?"),
        request("What is the gate code?", system=memory() + "\nThe gate code is 7421."),
        request("What is the gate code?", system=memory("the sky is blue") + "\nThe gate code is 7421."),
        request("What is the gate code?", before=({"role": "user", "content": f"{memory('gate code 7421')}"},)),
        request("What is the gate code?", before=({"role": "assistant", "content": "The gate code is 7421"},)),
    ],
)
def test_a_question_is_answered_from_nothing_but_the_memory_section(asked: Json) -> None:
    assert "7421" not in text(asked).replace(asked["messages"][-1]["content"], "")


def test_a_line_of_the_instructions_is_quoted() -> None:
    asked = request("Quote the second", system="one\nIt is the second line.\nthe second again")
    assert text(asked) == "It is the second line."
    assert text(request("Quote the second", before=({"role": "user", "content": "the second"},))) == UNKNOWN


def test_any_other_prompt_is_echoed() -> None:
    assert text(request("Say ok.")) == "ok: Say ok."
    assert text({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}) == "ok: Hi"
    assert text({"messages": []}) == "ok: "


def test_the_model_keeps_no_state_between_requests() -> None:
    question = request("What is the gate code?")
    first = answer(question)
    answer(request("Remember: the gate code is 7421", *tool_turn(STORED)))
    answer(request("What is the gate code?", system=memory("the gate code is 7421")))
    assert answer(question) == first


def test_a_command_is_run_with_the_terminal_tool() -> None:
    offered = request("Run: ls -la /tmp") | {"tools": [{"type": "function", "function": {"name": "terminal"}}]}
    (call,) = answer(offered)["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
        "terminal",
        {"command": "ls -la /tmp"},
    )


def test_the_first_message_of_a_conversation_is_repeated() -> None:
    before = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "ok: hello"})
    assert text(request("Repeat my first message.", before=before)) == "hello"
    assert text(request("Repeat my first message.")) == "Repeat my first message."


def test_a_slow_answer_pauses_after_each_word() -> None:
    assert pause_seconds(request("Slowly: one two")) > 0
    assert pause_seconds(request("Say: slowly")) == 0
    assert answer(request("Slowly: one two"))["choices"][0]["message"]["content"] == "one two"


def test_a_stream_has_the_same_content_as_the_completion() -> None:
    completion = answer(request("Remember: the gate code is 7421"))
    first, last, usage = chunks(completion, usage=True)
    (call,) = completion["choices"][0]["message"]["tool_calls"]
    assert first["choices"][0]["delta"] == {"role": "assistant", "tool_calls": [{"index": 0, **call}]}
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["choices"] == []
    assert usage["usage"] == completion["usage"]
    assert len(list(chunks(completion, usage=False))) == 2


def fetch(url: str, body: Json | None = None, key: str = "sk-test") -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_http_api_answers_and_checks_the_key() -> None:
    with serve(key="sk-test") as url:
        status, body = fetch(f"{url}/models")
        assert status == 200
        assert [model["id"] for model in json.loads(body)["data"]] == ["stand-in"]

        status, body = fetch(f"{url}/chat/completions", request("Say ok."))
        assert status == 200
        assert json.loads(body)["choices"][0]["message"] == {"role": "assistant", "content": "ok: Say ok."}

        status, body = fetch(f"{url}/chat/completions", request("Say ok.") | {"stream": True})
        events = body.strip().split("\n\n")
        assert status == 200
        assert events[-1] == "data: [DONE]"
        deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events[:-1]]
        assert [delta["content"] for delta in deltas if "content" in delta] == ["ok: ", "Say ", "ok."]

        status, body = fetch(f"{url}/chat/completions", request("Fail with 503"))
        assert (status, json.loads(body)["error"]["code"]) == (503, "asked_for")

        for path, asked in (("models", None), ("chat/completions", request("Say ok."))):
            status, body = fetch(f"{url}/{path}", asked, key="sk-wrong")
            assert status == 401
            assert json.loads(body)["error"]["code"] == "invalid_api_key"

        assert fetch(f"{url}/chat/completions", {"messages": "no"})[0] == 400
        assert fetch(f"{url}/nothing")[0] == 404


def test_the_log_has_each_answered_prompt_with_its_time(tmp_path: Path) -> None:
    log = tmp_path / "answered.jsonl"
    before = time.time()
    with serve(key="sk-test", log=log) as url:
        fetch(f"{url}/chat/completions", request("Say ok."))
        fetch(f"{url}/chat/completions", request("Say ok again.") | {"stream": True})
        fetch(f"{url}/chat/completions", request("Say no."), key="sk-wrong")
        fetch(f"{url}/chat/completions", request("Fail with 503"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["prompt"] for line in lines] == ["Say ok.", "Say ok again."]
    assert before <= lines[0]["at"] <= lines[1]["at"] <= time.time()


def test_the_model_runs_as_a_program_until_sigterm(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-test\n")
    command = [sys.executable, "-m", "pvebox.standins.model", "--port", "0", "--key-file", str(tmp_path / "key")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            assert fetch(f"{url}/models")[0] == 200
            assert fetch(f"{url}/models", key="sk-wrong")[0] == 401
        finally:
            process.terminate()
        assert process.wait(10) == 0


def test_a_key_file_that_is_absent_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pvebox.standins.model", "--key-file", str(tmp_path / "absent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert f"{tmp_path}/absent cannot be read: No such file or directory" in done.stderr


def test_a_port_in_use_is_reported_with_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pvebox.standins.model", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("prompt", "seconds"), [("Take 4 seconds and say it.", 4), ("Take 1 second.", 1), ("Take care.", 0), ("", 0)]
)
def test_the_prompt_take_seconds_delays_the_answer(prompt: str, seconds: int) -> None:
    before = ({"role": "user", "content": "Take 9 seconds."}, {"role": "assistant", "content": "ok"})
    assert delay_seconds(request(prompt, before=before)) == seconds
