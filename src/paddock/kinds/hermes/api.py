"""Requests to the API server of Hermes: its health, a prompt, and conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from paddock.base.frozen import frozen
from paddock.kinds.conversation import (
    ALWAYS,
    CHAT,
    DENY,
    ONCE,
    ONE_SHOT,
    SESSION,
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
from paddock.kinds.hermes.spec import API_KEY, HermesSpec
from paddock.kinds.workload import Answer, Page, Probes, Request, Verdict

_PAGE: Final = 200  # the most sessions that Hermes lists at once
_SILENCE_SECONDS: Final = 90  # Hermes sends a sign of life every 30 seconds


@frozen
class HermesConversation:
    """The conversation with one agent."""

    url: str
    key: str  # name of the secret to send

    def sessions(self, offset: int) -> Request:
        return self._request("GET", f"/api/sessions?limit={_PAGE}&offset={offset}")

    def listed(self, answer: Answer) -> tuple[Sequence[Session], int | None]:
        body = _body(answer)
        entries, offset = body.get("data"), body.get("offset")
        if not isinstance(entries, list) or not isinstance(offset, int):
            raise Unexpected(_told(answer))
        found = [session for entry in entries if (session := _session(entry))]
        return found, offset + len(entries) if body.get("has_more") is True and entries else None

    def past(self, session: str) -> Request:
        return self._request("GET", f"/api/sessions/{quote(session, safe='')}/messages")

    def remembered(self, answer: Answer) -> Past | None:
        if answer.status == 404 and _code(answer) == "session_not_found":
            return None
        body = _body(answer)
        entries, session = body.get("data"), body.get("session_id")
        if not isinstance(entries, list) or not isinstance(session, str):
            raise Unexpected(_told(answer))
        return Past(session, list(_history(entries)))

    def say(self, text: str, past: Past) -> Request:
        body = {"input": text, "session_id": past.session, "conversation_history": list(past.messages)}
        return self._request("POST", "/v1/runs", body, seconds=30)

    def begun(self, answer: Answer) -> str:
        run = _body(answer).get("run_id")
        if not isinstance(run, str) or not run:
            raise Unexpected(_told(answer))
        return run

    def events(self, answer_id: str) -> Request:
        return self._request("GET", f"{_run(answer_id)}/events", seconds=_SILENCE_SECONDS)

    def event(self, line: str) -> Event | None:
        if not line.startswith("data:"):
            return None  # a comment, or the empty line between two events
        try:
            found = json.loads(line.removeprefix("data:"))
        except (ValueError, RecursionError):
            raise Unexpected(f"the API sent {line[:200]}") from None
        if not isinstance(found, dict):
            raise Unexpected(f"the API sent {line[:200]}")
        return _event(found)

    def decide(self, answer_id: str, choice: str) -> Request:
        return self._request("POST", f"{_run(answer_id)}/approval", {"choice": choice})

    def decided(self, answer: Answer) -> bool:
        if answer.status == 409:
            return False
        _body(answer)
        return True

    def stop(self, answer_id: str) -> Request:
        return self._request("POST", f"{_run(answer_id)}/stop", {})

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float = 20) -> Request:
        return Request(method, f"{self.url}{path}", self.key, body=body, seconds=seconds)


def _event(found: Mapping[str, Any]) -> Event | None:
    match found.get("event"):
        case "message.delta":
            return Said(_text(found, "delta"))
        case "tool.started":
            return Working(_text(found, "tool"), _text(found, "preview"))
        case "tool.completed":
            return ToolFailed(_text(found, "tool")) if found.get("error") else None
        case "approval.request":
            offered = found.get("choices")
            offered = offered if isinstance(offered, list) else [ONCE, DENY]
            known = [choice for choice in (ONCE, SESSION, ALWAYS, DENY) if choice in offered]
            return Approval(_text(found, "command"), _text(found, "description"), known, _text(found, "pattern_key"))
        case "run.completed":
            return Completed(_text(found, "output"))
        case "run.failed":
            return Failed(_text(found, "error") or "Hermes gave no reason")
        case "run.cancelled":
            return Stopped()
        case _:
            return None


def _history(entries: Sequence[Any]) -> Iterator[Mapping[str, str]]:
    """Yield the messages of people and of the agent. A run accepts no tool calls and no tool results."""
    for entry in entries:
        if isinstance(entry, dict) and entry.get("role") in ("user", "assistant"):
            content = _words(entry.get("content"))
            if content.strip():
                yield {"role": str(entry["role"]), "content": content}


def _words(content: object) -> str:
    """Return the text of a message: a string, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _session(entry: object) -> Session | None:
    """Return a session of the list; None for one that was made for a single question."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or entry["id"].startswith(ONE_SHOT):
        return None
    first = entry.get("_lineage_root_id")  # the id before Hermes shortened the history
    active = entry.get("last_active") or entry.get("started_at")
    messages = entry.get("message_count")
    return Session(
        entry["id"],
        _text(entry, "title") or _text(entry, "preview"),
        _text(entry, "source"),
        messages if isinstance(messages, int) else 0,
        float(active) if isinstance(active, int | float) else 0.0,
        any(isinstance(each, str) and each.startswith(CHAT) for each in (entry["id"], first)),
    )


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _run(answer_id: str) -> str:
    return f"/v1/runs/{quote(answer_id, safe='')}"


def _body(answer: Answer) -> Mapping[str, Any]:
    """Return the body of an answer that is a success."""
    if not 200 <= answer.status < 300 or not isinstance(answer.body, dict):
        raise Unexpected(_told(answer))
    return answer.body


def _code(answer: Answer) -> object:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _told(answer: Answer) -> str:
    """Return a sentence about an unexpected answer of the API."""
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    if answer.status == 404 and not isinstance(message, str):
        return "this version of Hermes has no API for conversations"
    return f"the API answered {answer.status}: {message if isinstance(message, str) else str(answer.body)[:200]}"


def probes(agent: HermesSpec, prompt: str, conversation: str) -> Probes:
    """Return the health probe, and a prompt in a conversation of this name."""
    url = agent.url("api_server")
    model = agent.connectors.api_server.model_name or "hermes-agent"
    return Probes(
        health=_Health(f"{url}/health", values=(("status", "ok"),)), prompt=_Prompt(url, model, prompt, conversation)
    )


@frozen
class _Health(Page):
    """The API server answers. This says nothing about the model behind it."""

    @property
    def request(self) -> Request:
        return Request("GET", self.url, seconds=3)

    def judge(self, answer: Answer) -> Verdict:
        found = answer.body if isinstance(answer.body, dict) else {}
        return Verdict(
            super().judge(answer).ok, f"/health answered {answer.status}", version=str(found.get("version", ""))
        )


@frozen
class _Prompt:
    """The agent answers a prompt with its model."""

    url: str
    model: str
    text: str
    conversation: str

    @property
    def request(self) -> Request:
        message = {"role": "user", "content": self.text}
        body = {"model": self.model, "messages": [message], "stream": False}
        # Hermes keeps the system prompt, with the memory, from the start of a session. Without a session id, equal
        # prompts belong to one session.
        headers = {"X-Hermes-Session-Id": self.conversation}
        return Request("POST", f"{self.url}/v1/chat/completions", API_KEY, headers, body, seconds=120)

    def judge(self, answer: Answer) -> Verdict:
        # An error of the model has status 200 too; `finish_reason` and the key `hermes` show it.
        try:
            choice = answer.body["choices"][0]
            text, reason = str(choice["message"]["content"]), choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            return Verdict(False, f"the API answered {answer.status}: {answer.body}")
        if reason == "error":
            return Verdict(False, f"its model failed: {text}")
        ok = answer.status == 200 and reason == "stop" and "hermes" not in answer.body and bool(text.strip())
        return Verdict(ok, text)
