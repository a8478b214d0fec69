"""The program that asks an agent over loopback, as the machine and a container run it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from paddock.runtimes import loopback
from paddock.runtimes.program import program


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
    argv = [sys.executable, "-I", "-c", program("paddock.runtimes.loopback", "paddock.runtimes.request")]
    done = subprocess.run(argv, input=json.dumps(question), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
        **{"bearer": "KEY", "env_files": [str(tmp_path / "missing.env"), str(secrets)]},
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
        reply = asked({**question, "bearer": "KEY", "env_files": [str(tmp_path / "secrets.env")]})
        code, said = health_command(url, "200")
        assert (reply["status"], followed) == (status, [])
        assert (code, said) == (1, f"{url} answered {status}\n")
        assert health_command(url, str(status)) == (0, "")


def test_a_closed_port_is_refused_in_a_sentence() -> None:
    assert asked({"port": 1, "seconds": 3, "patience": 0}) == {"refused": "port 1 does not accept connections"}
