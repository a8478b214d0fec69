"""A stand-in for a language model, on loopback.

It has no memory and reads no file: each answer depends only on the text of its request. Asked for the line with a
SHA-256, it looks for that line in what the agent has put before the question, and repeats it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.program.serve import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.onboard.program.serve import Payload

MODEL = "stand-in"
UNKNOWN = "I do not know that line."
LARGEST = 32 << 20
NOBODY = 65534
ASKED = re.compile(r"SHA-256 ([0-9a-f]{64})")


def answer(request: Any) -> str:
    """Return the answer to a request for a completion."""
    messages = [each for each in request.get("messages") or [] if isinstance(each, dict)]
    last = max((at for at, each in enumerate(messages) if each.get("role") == "user"), default=-1)
    asked = ASKED.search(text_of(messages[last])) if last >= 0 else None
    if asked is None:
        return "ok"
    before = [line for message in messages[:last] for line in text_of(message).split("\n")]
    return next((line.strip() for line in before if digest(line) == asked.group(1)), UNKNOWN)


def digest(line: str) -> str:
    """Return the hash by which a line is asked for."""
    return hashlib.sha256(line.strip().encode(errors="replace")).hexdigest()


def text_of(message: Any) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "paddock"}]}
        known = self.path.partition("?")[0] == "/v1/models"
        self.reply(200 if known else 404, models if known else {"error": {"message": "unknown path"}})

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST or self.path != "/v1/chat/completions":
            self.close_connection = True
            self.reply(400, {"error": {"message": "this is not a request for a completion"}})
            return
        try:
            request = json.loads(self.rfile.read(int(size)))
            said = answer(request)
        except (ValueError, AttributeError, TypeError):
            self.reply(400, {"error": {"message": "the request cannot be read"}})
            return
        if request.get("stream"):
            self.stream(said)
        else:
            message = {"role": "assistant", "content": said}
            self.reply(200, completion("chat.completion", message=message, finish_reason="stop"))

    def stream(self, said: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        delta = {"role": "assistant", "content": said}
        for chunk in (
            completion("chat.completion.chunk", delta=delta, finish_reason=None),
            completion("chat.completion.chunk", delta={}, finish_reason="stop"),
        ):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


def completion(kind: str, **choice: Any) -> Any:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chatcmpl-stand-in", "object": kind, "created": 0, "model": MODEL, "usage": usage}
    return {**head, "choices": [{"index": 0, **choice}]}


def become_nobody() -> None:
    """Give up all rights: requests come from an agent, which is not trusted."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@frozen
class StandIn:
    """Answer like a model until the input ends."""

    port: int

    def perform(self, payload: Payload) -> None:
        try:
            server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        except OSError as error:
            raise Refusal(f"port {self.port} cannot be used: {error.strerror}", FAILED) from None
        become_nobody()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say("ready")
        with suppress(Refusal):
            payload.read()
