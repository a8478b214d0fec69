"""An agent that says anything: a server with the API of Hermes, whose events a test scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "key-of-the-agent-1234567890"


@dataclass
class Talker:
    """The events that the agent sends, and the requests that it got."""

    events: Sequence[dict[str, Any] | str]  # raw text, WAIT (for a decision or a stop) or HANG
    url: str = ""
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def bodies(self, path: str) -> list[Any]:
        return [body for _, found, body in self.asked if found.endswith(path)]


WAIT, HANG = "wait", "hang"


@contextmanager
def talker(*events: dict[str, Any] | str) -> Iterator[Talker]:
    """Serve the API while the block runs."""
    agent = Talker(events)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            agent.asked.append(("GET", self.path, None))
            if self.path.endswith("/events"):
                self._stream()
            else:
                self._send({"error": {"code": "session_not_found", "message": "none"}}, 404)

        def do_POST(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {KEY}"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            agent.asked.append(("POST", self.path, body))
            if self.path == "/v1/runs":
                self._send({"run_id": "run_1"}, 202)
            else:
                agent.told.set()
                self._send({"resolved": 1})

        def _stream(self) -> None:
            self.send_response(200)
            self.end_headers()
            for event in agent.events:
                if event == WAIT:
                    agent.told.wait(30)
                    agent.told.clear()
                elif event == HANG:
                    agent.ended.wait(60)
                else:
                    sent = event if isinstance(event, str) else json.dumps(event)
                    self.wfile.write(f"data: {sent}\n\n".encode())

        def _send(self, body: Any, status: int = 200) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield agent
        finally:
            agent.told.set()
            agent.ended.set()
            server.shutdown()


def dialogue(folder: Path, agent: Talker, *, terminal: bool, before: str = "") -> Path:
    """Write a program that talks to the agent as `paddock chat` does, and return its path."""
    etc = folder / "etc"
    (etc / "current").mkdir(parents=True)
    (etc / "generated.env").write_text(f"API_SERVER_KEY={KEY}\n")
    program = folder / "program.py"
    program.write_text(f"""\
import signal, sys
from types import SimpleNamespace
from paddock.base.errors import PaddockError
from paddock.channels.local import LocalGuest
from paddock.kinds.conversation import Past
from paddock.kinds.hermes.api import HermesConversation
from paddock.core.channel import channel
from paddock.verbs.chat import ChatOf
from paddock.verbs.dialogue import Dialogue, ctrl_c_stays_here
from paddock.show.reporter import Reporter
from paddock.base.secret import MaskedStream, Secret
sys.stdout, sys.stderr = MaskedStream(sys.stdout), MaskedStream(sys.stderr)
{before}
agent = SimpleNamespace(name="bee")
talk = HermesConversation({agent.url!r}, "API_SERVER_KEY")
runtime = SimpleNamespace(paths=SimpleNamespace(etc={str(etc / "current")!r}), owners=[])
try:
    with ctrl_c_stays_here(), channel(LocalGuest(), runtime) as opened:
        chat = ChatOf(agent, opened, talk)
        Dialogue("bee", chat, Reporter().of("bee"), terminal={terminal}).hold(Past("chat-1"))
    print("the conversation has ended.", flush=True)
except PaddockError as error:
    print("error:", error.message, flush=True)
except KeyboardInterrupt:
    print("left.", flush=True)
""")
    return program
