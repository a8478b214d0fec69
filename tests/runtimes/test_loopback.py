"""The program that asks an agent over loopback, as the machine and a container run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.channels.local import LocalGuest
from paddock.channels.onboard import framed_chunk, send, sent, started, told
from paddock.channels.sent import on_demand
from paddock.onboard import loopback
from paddock.onboard.relay import Relay
from paddock.onboard.request import AskAgent
from paddock.verify.look import INSIDE


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server that answers 401 and repeats the token it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()
            self.wfile.write(json.dumps({"token": self.headers["Authorization"]}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    with serving(Handler) as number:
        yield number


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on a free port, which is the value."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def health_command(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-I", loopback.__file__, *words], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_health_command_compares_the_status(port: int) -> None:
    url = f"http://127.0.0.1:{port}/"
    assert health_command(url, "401") == (0, "")
    assert health_command(url, "200") == (1, f"{url} answered 401\n")


def test_the_health_command_connects_to_a_port(port: int) -> None:
    assert health_command(str(port)) == (0, "")
    assert health_command("1") == (1, "port 1 does not accept connections\n")


def test_the_health_command_fails_when_nothing_listens() -> None:
    code, said = health_command("http://127.0.0.1:1/", "200")
    assert code == 1
    assert "Connection refused" in said


def asked(question: dict[str, Any], **environment: str) -> Any:
    argv, stdin = sent(AskAgent(question), python=sys.executable)
    done = subprocess.run(argv, input=stdin, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition(b"\0")[2])["value"]


def test_a_request_sends_the_secret_of_the_machine_and_uses_no_proxy(port: int, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.env"
    secrets.write_text('OTHER="x"\nKEY="canary value"\n')
    question: dict[str, Any] = {
        **{
            "method": "GET",
            "url": f"http://127.0.0.1:{port}/",
            "headers": {},
            "body": None,
            "seconds": 5,
            "patience": 0,
        },
        **{"bearer": "KEY", "env_files": [str(tmp_path / "missing.env"), str(secrets)], "owners": []},
    }
    reply = asked(question, http_proxy="http://127.0.0.1:1")
    assert reply == {"status": 401, "body": {"token": "Bearer canary value"}}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_the_answer_and_is_not_followed(status: int, tmp_path: Path) -> None:
    followed = []

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/health":
                followed.append((self.path, self.headers["Authorization"]))
            self.send_response(status if self.path == "/health" else 200)
            self.send_header("Location", "/elsewhere?the-memory-of-the-agent")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    (tmp_path / "secrets.env").write_text("KEY=canary\n")
    with serving(Agent) as agent:
        url = f"http://127.0.0.1:{agent}/health"
        question: dict[str, Any] = {
            "method": "GET",
            "url": url,
            "headers": {},
            "body": None,
            "seconds": 5,
            "patience": 0,
        }
        reply = asked({**question, "bearer": "KEY", "env_files": [str(tmp_path / "secrets.env")], "owners": []})
        code, said = health_command(url, "200")
        assert (reply["status"], followed) == (status, [])
        assert (code, said) == (1, f"{url} answered {status}\n")
        assert health_command(url, str(status)) == (0, "")


def test_a_closed_port_is_refused_in_a_sentence() -> None:
    assert asked({"port": 1, "seconds": 3, "patience": 0}) == {"refused": "port 1 does not accept connections"}


# Listens as a user, on an address of its family, and repeats the key. It accepts a connection only after a while.
SERVER = """
import email.parser, encodings.idna, http.server, json, os, socket, sys, time # loaded before the user changes
uid, host, slow = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
class Keyed(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"key": self.headers["Authorization"]}).encode())
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    def server_bind(self):
        if host == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
    def get_request(self):
        time.sleep(slow)
        return super().get_request()
os.setuid(uid)
server = Server((host, 0), Keyed)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
AGENT, STRANGER = 12345, 12346


@contextmanager
def listening_as(uid: int, host: str, slow: float = 0.0) -> Iterator[int]:
    """Listen on a free port as a user."""
    argv = [sys.executable, "-I", "-S", "-c", SERVER, str(uid), host, str(slow)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield int(server.stdout.readline())
        server.kill()


def with_key(url: str, folder: Path, **more: Any) -> Any:
    """Return what the agent's machine is told by a server that is asked with a key."""
    (folder / "secrets.env").write_text("KEY=canary\n")
    return asked({**keyed(url, folder), **more})


def keyed(url: str, folder: Path) -> dict[str, Any]:
    """Return a question with a key, about an agent that listens as its user."""
    question: dict[str, Any] = {"method": "GET", "url": url, "headers": {}, "body": None, "seconds": 5, "patience": 0}
    return {
        **question,
        "login": False,
        "bearer": "KEY",
        "env_files": [str(folder / "secrets.env")],
        "owners": [str(AGENT)],
    }


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to listen as another user")
HOSTS = [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::1", "[::1]")]


@needs_root
@pytest.mark.parametrize(
    ("host", "name", "slow"), [*((*each, 0) for each in HOSTS), (*HOSTS[0], 0.5), (*HOSTS[1], 0.5)]
)
def test_a_key_is_sent_to_the_agent_and_not_to_another_user(host: str, name: str, slow: float, tmp_path: Path) -> None:
    with listening_as(AGENT, host, slow) as port:
        assert with_key(f"http://{name}:{port}/", tmp_path)["body"] == {"key": "Bearer canary"}
    with listening_as(STRANGER, host, slow) as port:
        reply = with_key(f"http://{name}:{port}/", tmp_path)
    assert set(reply) == {"refused"}
    assert reply["refused"].endswith(
        f"user {STRANGER} of the machine answers there, who is not the agent's; the key was not sent"
    )


@needs_root
def test_a_request_without_a_key_may_be_answered_by_any_user(tmp_path: Path) -> None:
    with listening_as(STRANGER, "127.0.0.1") as port:
        reply = with_key(f"http://127.0.0.1:{port}/", tmp_path, bearer=None)
    assert reply["status"] == 200


@needs_root
def test_a_chat_sends_its_key_to_the_agent_and_not_to_another_user(tmp_path: Path) -> None:
    (tmp_path / "secrets.env").write_text("KEY=canary\n")
    for uid, wanted in ((AGENT, ["line", "end"]), (STRANGER, ["refused", "end"])):
        with (
            listening_as(uid, "127.0.0.1") as port,
            LocalGuest().piped(started()) as relay,
        ):
            send(relay, Relay())
            for stream in (True, False):
                question = {**keyed(f"http://127.0.0.1:{port}/", tmp_path), "id": 1, "stream": stream}
                relay.sink.write(framed_chunk(json.dumps(question).encode()))
                relay.sink.flush()
                parts = [told(relay.source.readline()) for _ in range(2)]
                assert [next(key for key in part if key != "id") for part in parts] == (
                    wanted if stream or uid == STRANGER else ["status", "end"]
                )
                assert ("canary" in json.dumps(parts)) == (uid == AGENT)


@needs_root
@pytest.mark.parametrize("own", [True, False], ids=["own-port", "another-server"])
def test_a_check_sends_the_key_of_the_agents_own_port_to_no_other_user(own: bool) -> None:
    """The key for another server, such as a model gateway on this machine, is sent to whoever runs it."""
    argv = ["/usr/bin/setpriv", "--reuid", str(AGENT), "--clear-groups", "/usr/bin/python3", "-I", "-S", "-c"]
    for uid in (AGENT, STRANGER):
        with listening_as(uid, "127.0.0.1") as port:
            question = {**keyed(f"http://127.0.0.1:{port}/", Path()), "kind": "request", "first": False, "own": own}
            done = subprocess.run(
                [*argv, on_demand(INSIDE)],
                input=json.dumps([question]),
                capture_output=True,
                text=True,
                env={"KEY": "canary"},
            )
            (answer,) = json.loads(done.stdout)["answers"]
            assert ("canary" in json.dumps(answer)) == (uid == AGENT or not own), answer


def test_a_server_of_another_user_that_no_longer_listens_gets_no_key() -> None:
    """The stranger accepts the connection and closes its port, and the agent listens there at once."""
    here, there = (b"\x7f\0\0\1", 40000), (b"\x7f\0\0\1", 8642)
    listens = (there, (bytes(4), 0), "0A", AGENT, 7)
    connection: Any = SimpleNamespace(getsockname=lambda: ("127.0.0.1", 40000), getpeername=lambda: ("127.0.0.1", 8642))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loopback, "table", lambda: iter([listens, (there, here, "01", STRANGER, 8)]))
        with pytest.raises(loopback.AnothersPort):
            loopback.expect_owner(connection, [AGENT])
        patch.setattr(loopback, "table", lambda: iter([listens, (there, here, "01", AGENT, 8)]))
        loopback.expect_owner(connection, [AGENT])
