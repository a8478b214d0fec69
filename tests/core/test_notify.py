"""Notifications of failures: a command, and a URL of a real web server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Paddock, paddock
from paddock.base.errors import BadInput
from paddock.show import journal

__all__ = ["paddock"]

FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  hermes: {{kind: hermes, version: 0.19.0, place: here, runtime: process, backup: {{to: ./backups}}}}
notify: {notify}
"""
FAILURE = "hermes has no state on its machine yet"


class Server(HTTPServer):
    """A web server that keeps the requests, and answers with one status."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.requests: list[tuple[str, str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append((self.path, "", None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, notify: str) -> None:
    (folder / "paddock.yaml").write_text(FILE.format(notify=notify))


def journaled() -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in sorted(journal.folder().glob("*")) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == "notify"]


def test_a_failed_backup_is_posted_to_the_url(
    folder: Path, server: Server, paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/hooks/T0-secret-part")
    write(folder, "{url: {env: HOOK}}")
    said = paddock("backup", "hermes")
    assert said.code == 1
    [(path, kind, message)] = server.requests
    assert (path, kind) == ("/hooks/T0-secret-part", "application/json")
    assert {key: message[key] for key in ("event", "project", "agent", "why", "text")} == {
        "event": "backup failed",
        "project": "home",
        "agent": "hermes",
        "why": FAILURE,
        "text": f"hermes (project home): backup failed: {FAILURE}",
    }
    assert [line["about"] for line in journaled()] == ["backup failed"]

    server.status = 500
    said = paddock("backup", "hermes")
    assert (said.code, f"error: {FAILURE}" in said.err) == (1, True)
    assert "nobody was notified of this: the URL in `notify` answered 500" in said.err

    server.shutdown()
    server.server_close()
    said = paddock("backup", "hermes")
    assert "nobody was notified of this: the URL in `notify` cannot be reached: " in said.err
    assert f"error: {FAILURE}" in said.err
    assert "T0-secret-part" not in said.err + json.dumps(journaled())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_notification_is_not_sent_to_where_its_server_points(
    folder: Path, server: Server, paddock: Paddock, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/hook")
    write(folder, "{url: {env: HOOK}}")
    server.status = status
    said = paddock("backup", "hermes")
    assert [path for path, _, _ in server.requests] == ["/hook"]
    assert f"nobody was notified of this: the URL in `notify` answered {status}" in said.err


def test_a_failed_backup_is_told_to_the_command(folder: Path, paddock: Paddock) -> None:
    script = folder / "tell"
    script.write_text("#!/bin/sh\ncat >told.json\n[ -z \"$1\" ] || { echo 'no route to my phone' >&2; exit 3; }\n")
    script.chmod(0o700)
    write(folder, "{command: [./tell]}")
    paddock("approve", "--yes")
    assert paddock("backup", "hermes").code == 1
    assert json.loads((folder / "told.json").read_text())["why"] == FAILURE
    write(folder, "{command: [./tell, fails]}")
    paddock("approve", "--yes")
    said = paddock("backup", "hermes").err
    assert "nobody was notified of this: the command in `notify` failed with code 3:" in said
    assert "no route to my phone" in said
    assert f"error: {FAILURE}" in said
    write(folder, "{command: [no-such-program]}")
    paddock("approve", "--yes")
    said = paddock("backup", "hermes").err
    assert "nobody was notified of this: the program no-such-program is not installed" in said
    assert [line.get("error", "")[:23] for line in journaled()] == [
        "",
        "the command in `notify`",
        "the program no-such-pro",
    ]


@pytest.mark.parametrize("notify", ["{}", "{command: [a], url: {env: B}}", "{url: 'https://hooks.example.com/T0'}"])
def test_notify_takes_one_command_or_one_source_of_a_url(folder: Path, notify: str, paddock: Paddock) -> None:
    write(folder, notify)
    assert paddock("check").code == BadInput.exit_code


def test_a_message_contains_no_secret_and_no_control_characters(
    folder: Path, paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddock.base.secret import Secret
    from paddock.verbs import backup

    (folder / "tell").write_text("#!/bin/sh\ncat >told.json\n")
    (folder / "tell").chmod(0o700)
    write(folder, "{command: [./tell]}")
    paddock("approve", "--yes")
    secret = Secret("sk-a-long-secret-value")

    def fails(agent: Any) -> str:
        raise BadInput(f"refused: {secret.reveal()} \x1b[31m")

    monkeypatch.setattr(backup, "make", fails)
    assert paddock("backup", "hermes").code == 2
    assert json.loads((folder / "told.json").read_text())["why"] == "refused: ••• \\x1b[31m"
