"""A stand-in for Telegram's Bot API, for tests of agents that people write to.

It implements the methods that a bot needs to poll for text messages and to answer them, at `URL/bot<token>/<method>`.
A test writes to the bot as a person with `POST /say` (`{"from": 4242, "text": "hello"}`), and reads the bot's
messages to a person with `GET /said` (`?to=4242`).

    python -m pvebox.standins.telegram --host 127.0.0.1 --port 0 --token 110201543:AAH-of-a-bot
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

from pvebox.standins.base import StandIn, parser, run, serving

BOT: Final = {"id": 110201543, "is_bot": True, "first_name": "Stand-in", "username": "stand_in_bot"}
LARGEST_REQUEST: Final = 1024 * 1024
LONGEST_POLL: Final = 50.0

Json = dict[str, Any]


class Chats:
    """Private chats between people and one bot. The id of a chat is the id of its person."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._updates: list[Json] = []
        self._messages: dict[int, Json] = {}

    def say(self, person: int, text: str) -> Json:
        """Send a message to the bot as a person."""
        with self._changed:
            author = {"id": person, "is_bot": False, "first_name": f"Person {person}"}
            message = self._add(person, author, text)
            self._updates.append({"update_id": len(self._updates) + 1, "message": message})
            self._changed.notify_all()
            return message

    def said(self, person: int) -> list[str]:
        """Return the bot's messages to a person, in order and with their edits applied."""
        with self._changed:
            return [m["text"] for m in self._messages.values() if m["chat"]["id"] == person and m["from"]["is_bot"]]

    def updates(self, offset: int, seconds: float) -> list[Json]:
        """Return the updates for the bot from this id on. Wait up to `seconds` if there are none."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._updates) >= max(offset, 1), timeout=min(seconds, LONGEST_POLL))
            return [update for update in self._updates if update["update_id"] >= offset]

    def write(self, person: int, text: str) -> Json:
        """Send a message to a person as the bot."""
        with self._changed:
            return self._add(person, BOT, text)

    def edit(self, number: int, text: str) -> Json | None:
        with self._changed:
            if number not in self._messages:
                return None
            self._messages[number]["text"] = text
            return self._messages[number]

    def _add(self, chat: int, author: Json, text: str) -> Json:
        number = len(self._messages) + 1
        self._messages[number] = {
            "message_id": number,
            "date": int(time.time()),
            "chat": {"id": chat, "type": "private", "first_name": f"Person {chat}"},
            "from": author,
            "text": text,
        }
        return self._messages[number]


def answer(chats: Chats, method: str, values: Json) -> Json:
    """Answer a call of the Bot API."""
    match method.lower():
        case "getme":
            return _ok(BOT | {"can_join_groups": False, "can_read_all_group_messages": False})
        case "getupdates":
            return _ok(chats.updates(int(values.get("offset") or 0), float(values.get("timeout") or 0)))
        case "sendmessage":
            return _ok(chats.write(int(values["chat_id"]), str(values["text"])))
        case "editmessagetext":
            edited = chats.edit(int(values["message_id"]), str(values["text"]))
            return _ok(edited) if edited else _error(400, "Bad Request: message to edit not found")
        case "getwebhookinfo":
            return _ok({"url": "", "has_custom_certificate": False, "pending_update_count": 0})
        case "getmycommands":
            return _ok([])
        case "getchat":
            return _ok({"id": int(values["chat_id"]), "type": "private", "accent_color_id": 0, "max_reaction_count": 0})
        case "deletewebhook" | "setmycommands" | "deletemycommands" | "sendchataction" | "setmessagereaction":
            return _ok(True)
        case "deletemessage" | "setmyname" | "setmydescription" | "setchatmenubutton" | "answercallbackquery":
            return _ok(True)
        case _:
            return _error(404, f"Not Found: {method} is not played here")


def _ok(result: Any) -> Json:
    return {"ok": True, "result": result}


def _error(code: int, description: str) -> Json:
    return {"ok": False, "error_code": code, "description": description}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST_REQUEST:
            self.close_connection = True
            self._send(_error(400, "Bad Request: Content-Length is missing or too large"))
            return
        try:
            values = _values(self.headers.get("Content-Type", ""), self.rfile.read(int(size)))
        except ValueError:
            self._send(_error(400, "Bad Request: cannot read the body"))
            return
        self._answer(values)

    def _answer(self, values: Json) -> None:
        url = urlsplit(self.path)
        values = dict(parse_qsl(url.query)) | values
        try:
            match url.path.strip("/").split("/"):
                case ["say"] if self.command == "POST":
                    self._send(_ok(self.server.chats.say(int(values["from"]), str(values["text"]))))
                case ["said"]:
                    self._send(_ok(self.server.chats.said(int(parse_qs(url.query)["to"][0]))))
                case [bot, method] if bot == f"bot{self.server.token}":
                    self._send(answer(self.server.chats, method, values))
                case [bot, _] if bot.startswith("bot"):
                    self._send(_error(401, "Unauthorized"))
                case _:
                    self._send(_error(404, "Not Found"))
        except (KeyError, ValueError):
            self._send(_error(400, "Bad Request: a parameter is missing or invalid"))

    def _send(self, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(body.get("error_code", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        # A polling bot may have closed its connection.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: every path contains the token."""


def _values(kind: str, body: bytes) -> Json:
    """Parse the parameters of a call: JSON, a URL-encoded form or a multipart form."""
    if kind.startswith("application/json"):
        found = json.loads(body or b"{}")
        return found if isinstance(found, dict) else {}
    if kind.startswith("multipart/form-data"):
        whole = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        parts = whole.get_payload() if whole.is_multipart() else []
        named = [
            (part.get_param("name", header="content-disposition"), part) for part in parts if isinstance(part, Message)
        ]
        return {str(name): str(part.get_payload()).removesuffix("\r\n") for name, part in named}
    return dict(parse_qsl(body.decode()))


class _Server(StandIn):
    def __init__(self, address: tuple[str, int], token: str) -> None:
        self.token = token
        self.chats = Chats()
        super().__init__(address, _Handler)


def serve(token: str, host: str = "127.0.0.1", port: int = 0) -> contextlib.AbstractContextManager[str]:
    """Serve in the background while the context is open. Yields the URL."""
    return serving(_Server((host, port), token))


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("pvebox.standins.telegram", "Serve a stand-in for Telegram's Bot API.")
    options.add_argument("--token", required=True, help="token of the bot")
    return run(options, argv, lambda args: serve(args.token, args.host, args.port))


if __name__ == "__main__":
    sys.exit(main())
