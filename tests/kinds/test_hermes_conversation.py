"""The requests of a conversation with Hermes, and what its answers mean."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.kinds.conversation import (
    Approval,
    Completed,
    Event,
    Failed,
    Past,
    Said,
    Session,
    Stopped,
    ToolFailed,
    Unexpected,
    Working,
)
from paddock.kinds.hermes.api import HermesConversation
from paddock.kinds.workload import Answer

TALK = HermesConversation("http://127.0.0.1:8642", "API_SERVER_KEY")
ALL = ["once", "session", "always", "deny"]
ASKED = {"event": "approval.request", "command": "rm -r x", "description": "recursive delete", "pattern_key": "rm"}


@pytest.mark.parametrize(
    ("event", "meant"),
    [
        ({"event": "message.delta", "delta": "he"}, Said("he")),
        ({"event": "tool.started", "tool": "terminal", "preview": "ls"}, Working("terminal", "ls")),
        ({"event": "tool.started", "tool": "memory", "preview": None}, Working("memory", "")),
        ({"event": "tool.completed", "tool": "terminal", "error": True}, ToolFailed("terminal")),
        ({"event": "tool.completed", "tool": "terminal", "error": False}, None),
        ({**ASKED, "choices": ALL}, Approval("rm -r x", "recursive delete", ALL, "rm")),
        ({**ASKED, "choices": ["deny", "once"]}, Approval("rm -r x", "recursive delete", ["once", "deny"], "rm")),
        ({"event": "run.completed", "output": "hello"}, Completed("hello")),
        ({"event": "run.failed", "error": "HTTP 401"}, Failed("HTTP 401")),
        ({"event": "run.failed"}, Failed("Hermes gave no reason")),
        ({"event": "run.cancelled"}, Stopped()),
        ({"event": "reasoning.available", "text": "hm"}, None),
    ],
)
def test_events_of_a_run(event: dict[str, Any], meant: Event | None) -> None:
    assert TALK.event(f"data: {json.dumps(event)}") == meant


def test_comments_and_empty_lines_are_no_events() -> None:
    assert [TALK.event(line) for line in (": keepalive", "", ": stream closed")] == [None, None, None]


def test_a_run_gets_the_history_of_its_session_without_tools() -> None:
    rows = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "tool", "content": "a result", "tool_call_id": "c"},
        {"role": "assistant", "content": [{"type": "text", "text": "answer"}, {"type": "image_url"}]},
    ]
    past = TALK.remembered(Answer(200, {"data": rows, "session_id": "chat-1-later"}))
    said = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "answer"}]
    assert past == Past("chat-1-later", said)
    request = TALK.say("second", past)
    assert (request.method, request.url, request.bearer) == ("POST", "http://127.0.0.1:8642/v1/runs", "API_SERVER_KEY")
    assert request.body == {"input": "second", "session_id": "chat-1-later", "conversation_history": said}


def test_a_session_that_does_not_exist_is_no_error() -> None:
    missing = {"error": {"message": "Session not found: x", "code": "session_not_found"}}
    assert TALK.remembered(Answer(404, missing)) is None


def test_an_id_cannot_name_another_path() -> None:
    assert TALK.past("../../v1/models").url == "http://127.0.0.1:8642/api/sessions/..%2F..%2Fv1%2Fmodels/messages"


def test_an_older_hermes_without_these_paths_is_named() -> None:
    with pytest.raises(Unexpected, match="this version of Hermes has no API for conversations"):
        TALK.remembered(Answer(404, "404: Not Found"))


def test_sessions_for_a_single_question_are_left_out() -> None:
    rows = [
        {"id": "paddock-1", "source": "api_server"},
        {"id": "chat-2", "source": "api_server", "preview": "hello", "message_count": 4, "last_active": 20.5},
        {"id": "tg-3", "source": "telegram", "title": "Plans", "message_count": 2, "started_at": 10},
        {"id": "x-4", "_lineage_root_id": "chat-0"},
    ]
    found, following = TALK.listed(Answer(200, {"data": rows, "offset": 200, "has_more": True}))
    assert found == [
        Session("chat-2", "hello", "api_server", 4, 20.5, ours=True),
        Session("tg-3", "Plans", "telegram", 2, 10.0, ours=False),
        Session("x-4", "", "", 0, 0.0, ours=True),
    ]
    assert following == 204
    assert TALK.listed(Answer(200, {"data": rows, "offset": 0, "has_more": False}))[1] is None


def test_a_decision_that_comes_too_late_is_told() -> None:
    assert TALK.decided(Answer(200, {"resolved": 1}))
    assert not TALK.decided(Answer(409, {"error": {"code": "approval_not_pending"}}))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "session_id", "offset", "has_more", "run_id", "id", "role", "content", "choices"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(answer=st.builds(Answer, st.sampled_from([200, 202, 404, 409, 500]), anything))
def test_any_answer_of_an_agent_is_read_or_named_as_unexpected(answer: Answer) -> None:
    for read in (TALK.listed, TALK.remembered, TALK.begun, TALK.decided):
        with suppress(Unexpected):
            read(answer)


@given(
    found=st.text()
    | anything.map(json.dumps)
    | st.fixed_dictionaries(
        {"event": st.sampled_from(["message.delta", "approval.request", "run.failed", "tool.started"])},
        optional={"delta": anything, "choices": anything, "command": anything, "error": anything},
    ).map(json.dumps)
)
def test_any_line_of_an_agent_is_an_event_or_unexpected(found: str) -> None:
    with suppress(Unexpected):
        TALK.event(f"data: {found}")
