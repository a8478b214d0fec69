"""A stand-in for a model behind the Messages API of Anthropic; it repeats the prompt and keeps the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from pvebox.standins.base import StandIn, serving

KEY = "sk-ant-api-of-the-stand-in"
Json = dict[str, Any]


@dataclass(frozen=True)
class Messages:
    """A running stand-in: its URL, and the requests that it got."""

    url: str
    requests: list[Json] = field(default_factory=list)

    def tools(self) -> set[str]:
        """Return the names of the tools in the last request."""
        return {tool["name"] for tool in self.requests[-1].get("tools", ())}


class _Server(StandIn):
    requests: list[Json]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._send(404, json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "no"}}))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("x-api-key") != KEY:
            self._send(401, json.dumps({"type": "error", "error": {"type": "authentication_error", "message": "no"}}))
            return
        self.server.requests.append(request)
        answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"]}
        text = f"ok: {_prompt(request)}"
        usage = {"input_tokens": 1, "output_tokens": 1}
        if not request.get("stream"):
            content = [{"type": "text", "text": text}]
            ended = {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
            self._send(200, json.dumps({**answer, "content": content, **ended}))
            return
        events: list[Json] = [
            {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send(200, "".join(lines), "text/event-stream")

    def _send(self, status: int, body: str, kind: str = "application/json") -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _prompt(request: Json) -> str:
    last = [message for message in request["messages"] if message["role"] == "user"][-1]["content"]
    return last if isinstance(last, str) else "".join(part.get("text", "") for part in last)


@contextmanager
def anthropic_model(host: str = "127.0.0.1") -> Iterator[Messages]:
    server = _Server((host, 0), _Handler)
    server.requests = []
    with serving(server) as url:
        yield Messages(url, server.requests)
