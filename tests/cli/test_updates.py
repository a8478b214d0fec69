"""A package index of a company says which version is the newest; uv is configured to use it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Paddock
from paddock.base.computer import state_folder
from paddock.verbs import status as updates

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  hermes: {kind: hermes, version: 0.19.0, place: here, runtime: process}
"""


def wheel(version: str) -> bytes:
    """A package without code."""
    info = f"hermes_agent-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hermes-agent\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashes = {
        name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for name, text in files.items()
    }
    record = "".join(f"{name},sha256={hashes[name]},{len(text)}\n" for name, text in files.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in (files | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            archive.writestr(name, text)
    return packed.getvalue()


class Index(BaseHTTPRequestHandler):
    """A package index with some versions of one package."""

    versions: list[str]
    asked: list[str]

    def do_GET(self) -> None:
        if self.path == "/simple/hermes-agent/":
            self.asked.append(self.path)
            names = [f"hermes_agent-{version}-py3-none-any.whl" for version in self.versions]
            self._answer(200, "".join(f'<a href="/files/{name}">{name}</a>\n' for name in names).encode())
        elif self.path.startswith("/files/"):
            self._answer(200, wheel(self.path.split("-")[1]))
        else:
            self._answer(404, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    """An index that the settings of the account name, and a file with an agent."""

    class Own(Index):
        versions = ["0.18.2", "0.19.0", "0.20.0", "0.21.0rc1"]  # noqa: RUF012
        asked: list[str] = []  # noqa: RUF012

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = tmp_path / "config/uv/uv.toml"
    settings.parent.mkdir(parents=True)
    address = f"http://127.0.0.1:{server.server_address[1]}/simple"
    settings.write_text(f'[[index]]\nurl = "{address}"\ndefault = true\n')
    for name in ("UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.yaml").write_text(FILE)
    updates._newest.cache_clear()
    yield Own
    updates._newest.cache_clear()
    server.shutdown()
    server.server_close()


def newer(paddock: Paddock, *words: str) -> str:
    updates._newest.cache_clear()  # as a new command would
    return str(json.loads(paddock("status", "--updates", "--json", *words).out)[0]["newer"])


def test_a_newer_version_is_shown_and_the_index_is_asked_once_a_day(
    paddock: Paddock,
    index: type[Index],
) -> None:
    assert newer(paddock) == "0.20.0"
    assert newer(paddock, "--set", "agents.hermes.version=0.18.2") == "0.20.0"
    assert len(index.asked) == 1
    kept = state_folder() / "newest/hermes-agent.json"
    kept.write_text(json.dumps({"version": "0.20.0", "asked": "2026-01-31T12:00:00+00:00"}))
    index.versions.append("0.22.0")
    assert newer(paddock) == "0.22.0"


def test_status_without_the_option_asks_nobody(paddock: Paddock, index: type[Index]) -> None:
    said = paddock("status", "--json")
    assert said.code == 0, said.err
    (row,) = json.loads(said.out)
    assert "newer" not in row
    assert index.asked == []


def test_the_newest_version_is_no_news(paddock: Paddock, index: type[Index]) -> None:
    index.versions[:] = ["0.18.2", "0.19.0"]
    assert newer(paddock) == "-"


@pytest.mark.parametrize("kept", ["", "{}", "[]", '{"version": 1, "asked": 2}'])
def test_an_index_that_does_not_answer_is_no_error(
    paddock: Paddock,
    index: type[Index],
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    (state_folder() / "newest").mkdir(parents=True)
    (state_folder() / "newest/hermes-agent.json").write_text(kept)
    assert newer(paddock) == updates.UNKNOWN


def test_a_version_that_the_index_lacks_is_told_with_the_newest_one(
    paddock: Paddock,
    index: type[Index],
) -> None:
    said = paddock("template", "lock", "hermes", "--set", "agents.hermes.version=9.9.9")
    assert said.code == 2
    assert "error: the package index has no wheel of hermes-agent 9.9.9\n" in said.err
    assert " hint: the newest version there is 0.20.0\n" in said.err
