"""Stand-ins for an ntfy server, a Matrix homeserver and an IRC server: the parts that Hermes uses."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pvebox.standins.base import StandIn, serving

BOT = "@bot:stand.in"


class Ntfy:
    """One server with any topics. `status` is its answer to readers."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.status = 200
        self.changed = threading.Condition()
        self.published: dict[str, list[str]] = {}
        self._sent: list[dict[str, Any]] = []

    def say(self, topic: str, text: str) -> None:
        """Send a message to every reader, whatever topic it reads, as a server does for several topics."""
        with self.changed:
            number = len(self._sent)
            self._sent.append({"id": f"m{number}", "event": "message", "topic": topic, "message": text})
            self.changed.notify_all()

    def heard(self, topic: str) -> list[str]:
        with self.changed:
            return [*self.published.get(topic, [])]

    def answer(self, call: _Call) -> None:
        if call.headers.get("Authorization") != f"Bearer {self.token}":
            call.answer(401, {"error": "unauthorized"})
        elif call.command == "POST":
            with self.changed:
                self.published.setdefault(call.words[0], []).append(call.body.decode())
            call.answer(200, {"id": "p"})
        elif self.status != 200:
            call.answer(self.status, {"error": "broken"})
        elif call.query.get("poll") == "1":
            call.answer(200, {})
        else:
            self._stream(call)

    def _stream(self, call: _Call) -> None:
        call.send_response(200)
        call.end_headers()
        call.close_connection = True
        told = 0
        with suppress(OSError):
            while True:
                new = self._after(told)
                told += len(new)
                for message in new or [{"event": "keepalive"}]:
                    call.wfile.write(json.dumps(message).encode() + b"\n")
                call.wfile.flush()

    def _after(self, told: int) -> list[dict[str, Any]]:
        with self.changed:
            self.changed.wait_for(lambda: len(self._sent) > told, timeout=5)
            return self._sent[told:]


class Matrix:
    """A homeserver with one room for each person who talks to the bot."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.changed = threading.Condition()
        self._events: list[dict[str, Any]] = []
        self._said: list[tuple[str, str]] = []

    def say(self, person: str, text: str) -> None:
        with self.changed:
            event: dict[str, Any] = {"type": "m.room.message", "sender": person, "event_id": f"$e{len(self._events)}"}
            event |= {"origin_server_ts": int(time.time() * 1000), "content": {"msgtype": "m.text", "body": text}}
            self._events.append(event)
            self.changed.notify_all()

    def heard(self, person: str) -> list[str]:
        with self.changed:
            return [text for room, text in self._said if room == _room(person)]

    def answer(self, call: _Call) -> None:
        if call.headers.get("Authorization") != f"Bearer {self.token}":
            call.answer(401, {"errcode": "M_UNKNOWN_TOKEN", "error": "unknown token"})
            return
        match (call.command, *call.words[3:]):
            case "GET", "account", "whoami":
                call.answer(200, {"user_id": BOT, "device_id": "D"})
            case "GET", "sync":
                call.answer(200, self._sync(call.query))
            case "GET", "user", _, "account_data", "m.direct":
                call.answer(200, {event["sender"]: [_room(event["sender"])] for event in self._events})
            case "GET", "rooms", room, "joined_members":
                person = f"@{room[1:]}"
                call.answer(200, {"joined": {BOT: {}, person: {}}})
            case "PUT", "rooms", room, "send", "m.room.message", _:
                with self.changed:
                    self._said.append((room, str(json.loads(call.body)["body"])))
                call.answer(200, {"event_id": f"$a{len(self._said)}"})
            case (("PUT" | "POST"), *_):
                call.answer(200, {"event_id": "$x"})
            case _:
                call.answer(404, {"errcode": "M_NOT_FOUND", "error": "not played here"})

    def _sync(self, query: dict[str, str]) -> dict[str, Any]:
        since = int(query.get("since", "0"))
        with self.changed:
            wait = float(query.get("timeout", "0")) / 1000 if "since" in query else 0
            self.changed.wait_for(lambda: len(self._events) > since, timeout=min(wait, 5))
            new = self._events[since:]
            rooms: dict[str, Any] = {_room(event["sender"]): {"timeline": {"events": []}} for event in new}
            for event in new:
                rooms[_room(event["sender"])]["timeline"]["events"].append(event)
            return {"next_batch": str(len(self._events)), "rooms": {"join": rooms}}


def _room(person: str) -> str:
    return f"!{person[1:]}"


class Irc:
    """An IRC server for one bot, to which people write in private."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.joined = threading.Event()
        self._said: list[str] = []
        self._bot: socket.socket | None = None

    def say(self, person: str, text: str) -> None:
        assert self._bot is not None
        self._bot.sendall(f":{person}!{person}@stand.in PRIVMSG bot :{text}\r\n".encode())

    def heard(self, person: str) -> list[str]:
        begin = f"PRIVMSG {person} :"
        return [line.removeprefix(begin) for line in self._said if line.startswith(begin)]

    @contextmanager
    def serving(self) -> Iterator[Irc]:
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join(timeout=10)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._bot, _ = self._listener.accept()
                with self._bot.makefile("r", encoding="utf-8", newline="\r\n") as lines, suppress(OSError):
                    for line in lines:
                        self._hear(line.rstrip("\r\n"))

    def _hear(self, line: str) -> None:
        assert self._bot is not None
        self._said.append(line)
        if line.startswith("USER "):
            self._bot.sendall(b":stand.in 001 bot :Welcome\r\n")
        if line.startswith("JOIN "):
            self.joined.set()


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.words = [unquote(word) for word in url.path.strip("/").split("/")]
        self.query = dict(parse_qsl(url.query))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.player.answer(self)

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


class _Server(StandIn):
    def __init__(self, player: Ntfy | Matrix) -> None:
        self.player = player
        super().__init__(("127.0.0.1", 0), _Call)


@contextmanager
def played(player: Ntfy | Matrix) -> Iterator[str]:
    """Serve a stand-in on loopback while the context is open. Yields its URL."""
    with serving(_Server(player)) as url:
        yield url
