"""A stand-in for a language model, behind an OpenAI-compatible API.

It shows whether an agent's memory survived, so it has no memory of its own: each answer depends only on the text of
its request. It understands these prompts:

- `Remember: X` calls the agent's `memory` tool with X.
- A question about a subject is answered with a quote from the memory section that the agent put into the system
  prompt. The question itself and the rest of the conversation are never quoted.
- `Take 5 seconds` delays the answer.
- `Read http://…` calls the agent's browser and repeats the text of the page.
- `Write /path: X` calls the agent's `write_file` tool with X.
- `Quote X` is answered with the first line of the agent's instructions that contains X.
- `Run: X` calls the agent's `terminal` tool with the command X.
- `Slowly: X` streams X word by word, with a pause after each.
- `Repeat my first message` is answered with the first message of the conversation.
- `Fail with 400` is answered with that HTTP status.

With a log it records each prompt that it answers, with the time.

    python -m pvebox.standins.model --host 127.0.0.1 --port 0 --key-file model.key --log answered.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

from pvebox.standins.base import StandIn, parser, run, serving

MODEL: Final = "stand-in"
_KEY_HELP: Final = "file with the bearer key that clients must send (default: no key needed)"
UNKNOWN: Final = "I do not know."
LARGEST_REQUEST: Final = 32 * 1024 * 1024

# Hermes renders a memory block as a line of ═, a title, a line of ═, and entries separated by lines with §
# (hermes-agent 0.19.0, tools/memory_tool.py, MemoryStore._render_block). A blank line ends the block.
_SECTION: Final = re.compile(
    r"^═{8,}\n(?:MEMORY|USER PROFILE)\b[^\n]*\n═{8,}\n(.*?)(?=\n[ \t]*\n|\n═{8,}|\Z)", re.MULTILINE | re.DOTALL
)
_REMEMBER: Final = re.compile(r"^\s*(?:please,?\s+)?remember(?:\s*:\s*|\s+that\s+)(\S.*)$", re.I | re.M)
_QUESTION: Final = re.compile(
    r"^\s*(?:what(?:'s|\s+is|\s+are|\s+was|\s+were)|who(?:'s|\s+is)|where(?:'s|\s+is)|when(?:'s|\s+is)"
    r"|(?:what\s+)?do\s+you\s+(?:remember|know)(?:\s+about)?)\s+(\S.*?)\s*\?",
    re.I | re.M,
)
_READ: Final = re.compile(r"^\s*read (https?://\S+)", re.I)
_WRITE: Final = re.compile(r"^\s*write (/\S+): (\S.*)$", re.I | re.M)
_QUOTE: Final = re.compile(r"^\s*quote (\S.*?)\s*$", re.I | re.M)
_RUN: Final = re.compile(r"^\s*run: (\S.*)$", re.I | re.M)
_SLOWLY: Final = re.compile(r"^\s*slowly: (\S.*)$", re.I | re.S)
_FIRST: Final = re.compile(r"^\s*repeat my first message", re.I)
_FAIL: Final = re.compile(r"^\s*fail with (\d{3})\b", re.I)
_DELAY: Final = re.compile(r"^\s*take (\d{1,2}) seconds?\b", re.I)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n(?:\s*§\s*\n)?")
_WORD: Final = re.compile(r"\w+")
_FILLERS: Final = frozenset(
    _WORD.findall("a about an for from her his in its me my of on our that the their this those to with your")
)

_WORD_SECONDS: Final = 0.1

_INSTRUCTING: Final = ("system", "developer")

Json = dict[str, Any]


def answer(request: Mapping[str, Any]) -> Json:
    """Return the `chat.completion` for a request. Equal requests get equal answers."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    message, finish = _reply(request, call_id=f"call_{digest[:24]}")
    asked = sum(len(_text(m.get("content"))) for m in _messages(request)) // 4
    said = len(json.dumps(message)) // 4
    return {
        "id": f"chatcmpl-{digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": str(request.get("model") or MODEL),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def delay_seconds(request: Mapping[str, Any]) -> int:
    """Return the delay in seconds that the last user message asks for, or 0."""
    wanted = _DELAY.match(_last_prompt(request))
    return int(wanted[1]) if wanted else 0


def failure(request: Mapping[str, Any]) -> int | None:
    """Return the HTTP status that the last user message asks for, if it does."""
    wanted = _FAIL.match(_last_prompt(request))
    return int(wanted[1]) if wanted else None


def pause_seconds(request: Mapping[str, Any]) -> float:
    """Return the pause after each word of a streamed answer that the last user message asks for, or 0."""
    return _WORD_SECONDS if _SLOWLY.match(_last_prompt(request)) else 0.0


def chunks(completion: Json, *, usage: bool) -> Iterator[Json]:
    """Yield a completion as the chunks of a stream, word by word, and the token usage last if `usage` is set."""
    choice = completion["choices"][0]
    delta = {key: value for key, value in choice["message"].items() if value is not None}
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    words = re.findall(r"\S+\s*|\s+", delta.pop("content", ""))
    for each in [delta, *({"content": word} for word in words)]:
        yield head | {"choices": [{"index": 0, "delta": each, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if usage:
        yield head | {"choices": [], "usage": completion["usage"]}


def _reply(request: Mapping[str, Any], *, call_id: str) -> tuple[Json, str]:
    messages = _messages(request)
    last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    prompt = _text(messages[last].get("content")).strip() if last >= 0 else ""
    if tool_task := _tool_task(prompt):
        result = _result_of(tool_task.tool, messages[last + 1 :])
        if result is not None:
            return _said(tool_task.reply(result))
        if tool_task.tool not in _tools_offered(request):
            return _said(tool_task.without_tool)
        return _called(tool_task.tool, tool_task.arguments, call_id)
    if slowly := _SLOWLY.match(prompt):
        return _said(slowly[1])
    if _FIRST.match(prompt):
        return _said(next(_text(m.get("content")) for m in messages if m.get("role") == "user"))
    if question := _QUESTION.search(prompt):
        return _said(_recall(question[1], messages) or UNKNOWN)
    if wanted := _QUOTE.search(prompt):
        return _said(_quoted(wanted[1], messages) or UNKNOWN)
    return _said(f"ok: {prompt}")


@dataclass(frozen=True)
class _ToolTask:
    """A call of one of the agent's tools, and the replies for its result or if the tool is missing."""

    tool: str
    arguments: Json
    reply: Callable[[str], str]
    without_tool: str


def _tool_task(prompt: str) -> _ToolTask | None:
    if fact := _REMEMBER.search(prompt):
        content = fact[1].strip()
        arguments = {"action": "add", "target": "memory", "content": content}
        without_tool = "I cannot remember that: no memory tool was offered."
        return _ToolTask("memory", arguments, lambda result: _confirmation(content, result), without_tool)
    if page := _READ.search(prompt):
        without_tool = "I cannot read that: no browser was offered."
        return _ToolTask("browser_navigate", {"url": page[1]}, lambda shown: f"The page says: {shown}", without_tool)
    if file := _WRITE.search(prompt):
        arguments = {"path": file[1], "content": f"{file[2]}\n"}
        without_tool = "I cannot write that: no tool for files was offered."
        return _ToolTask("write_file", arguments, lambda result: f"The tool says: {result}", without_tool)
    if command := _RUN.search(prompt):
        without_tool = "I cannot run that: no terminal was offered."
        arguments = {"command": command[1]}
        return _ToolTask("terminal", arguments, lambda result: f"The terminal says: {result}", without_tool)
    return None


def _called(tool: str, arguments: Json, call_id: str) -> tuple[Json, str]:
    call = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    calls = [{"id": call_id, "type": "function", "function": call}]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def _said(text: str) -> tuple[Json, str]:
    return {"role": "assistant", "content": text}, "stop"


def _recall(subject: str, messages: Sequence[Json]) -> str | None:
    """Return the newest sentence in the agent's memory that contains every word of the subject, or None."""
    wanted = _words(subject) - _FILLERS
    sentences = [s.strip() for section in _SECTION.findall(_instructions(messages)) for s in _SENTENCE.split(section)]
    return next((s for s in reversed(sentences) if wanted and wanted <= _words(s)), None)


def _quoted(words: str, messages: Sequence[Json]) -> str | None:
    """Return the first line of the instructions that contains these words, or None."""
    return next((line.strip() for line in _instructions(messages).split("\n") if words in line), None)


def _instructions(messages: Sequence[Json]) -> str:
    return "\n\n".join(_text(m.get("content")) for m in messages if m.get("role") in _INSTRUCTING)


def _confirmation(content: str, result: str) -> str:
    try:
        outcome = json.loads(result)
    except ValueError:
        outcome = None
    match outcome:
        case {"success": True, "staged": True}:
            return f"It is not stored yet, it waits for approval: {content}"
        case {"success": True}:
            return f"I will remember: {content}"
        case {"error": str(error)}:
            return f"I could not remember that: {error}"
        case _:
            return f"I could not remember that: {result}"


def _result_of(tool: str, since: Sequence[Json]) -> str | None:
    """Return the last result of a tool in these messages, or None if the tool was not called."""
    called = {
        call.get("id")
        for message in since
        for call in message.get("tool_calls") or ()
        if call.get("function", {}).get("name") == tool
    }
    results = [m for m in since if m.get("role") == "tool" and m.get("tool_call_id") in called]
    return _text(results[-1].get("content")) if results else None


def _tools_offered(request: Mapping[str, Any]) -> set[str]:
    return {str(tool.get("function", {}).get("name")) for tool in request.get("tools") or ()}


def _last_prompt(request: Mapping[str, Any]) -> str:
    asked = [_text(m.get("content")) for m in _messages(request) if m.get("role") == "user"]
    return asked[-1] if asked else ""


def _messages(request: Mapping[str, Any]) -> Sequence[Json]:
    return [message for message in request.get("messages") or () if isinstance(message, dict)]


def _text(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; Nagle's algorithm would delay the second by 40 ms
    server: _Server

    def do_GET(self) -> None:
        if self._refused():
            return
        models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "pvebox"}]
        if self.path.partition("?")[0] == "/v1/models":
            self._send(200, {"object": "list", "data": models})
        else:
            self._send_error(404, f"Unknown path {self.path}.", "not_found")

    def do_POST(self) -> None:
        # Read the body even if the request is rejected: unread bytes would be parsed as the next request.
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST_REQUEST:
            self.close_connection = True
            self._send_error(400, f"Content-Length is missing or above {LARGEST_REQUEST} bytes.", "bad_request")
            return
        body = self.rfile.read(int(size))
        if self._refused():
            return
        if self.path != "/v1/chat/completions":
            self._send_error(404, f"Unknown path {self.path}.", "not_found")
            return
        try:
            request = json.loads(body)
        except ValueError:
            request = None
        if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
            self._send_error(400, "The body must be a JSON object with a list of messages.", "bad_request")
            return
        if (status := failure(request)) is not None:
            self._send_error(status, "The prompt asks for this failure.", "asked_for")
            return
        time.sleep(delay_seconds(request))
        completion = answer(request) | {"created": int(time.time())}
        self.server.note(_last_prompt(request))
        if request.get("stream"):
            options = request.get("stream_options") or {}
            self._stream(chunks(completion, usage=bool(options.get("include_usage"))), pause_seconds(request))
        else:
            self._send(200, completion)

    def _refused(self) -> bool:
        key = self.server.key
        sent = self.headers.get("Authorization", "")
        if key is None or hmac.compare_digest(sent.encode(), f"Bearer {key}".encode()):
            return False
        self._send_error(401, "Incorrect API key provided.", "invalid_api_key")
        return True

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_error(self, status: int, message: str, code: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        self._send(status, {"error": error})

    def _stream(self, parts: Iterator[Json], pause: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client may stop the answer
            for part in parts:
                self.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")
                time.sleep(pause)
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


class _Server(StandIn):
    def __init__(self, address: tuple[str, int], key: str | None, log: Path | None) -> None:
        self.key = key
        self._log = log
        super().__init__(address, _Handler)

    def note(self, prompt: str) -> None:
        """Write a line about an answered prompt to the log, if there is one."""
        if self._log:
            # One write, because several threads answer at the same time.
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"at": time.time(), "prompt": prompt}) + "\n")


@contextlib.contextmanager
def serve(host: str = "127.0.0.1", port: int = 0, key: str | None = None, log: Path | None = None) -> Iterator[str]:
    """Serve in the background while the context is open. Yields the base URL, which ends in `/v1`."""
    with serving(_Server((host, port), key, log)) as url:
        yield f"{url}/v1"


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").partition("\n")[0]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error.strerror}") from None


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("pvebox.standins.model", "Serve a stand-in for a language model, with an OpenAI-compatible API.")
    # A file, because every account on the machine can read the arguments of a process.
    options.add_argument("--key-file", type=_first_line, metavar="FILE", dest="key", help=_KEY_HELP)
    options.add_argument("--log", type=Path, help="file to which a line is added for each answered prompt")
    return run(options, argv, lambda args: serve(args.host, args.port, args.key, args.log))


if __name__ == "__main__":
    sys.exit(main())
