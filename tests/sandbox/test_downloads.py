"""Fetching templates: checked, not overwritten, not kept when wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from paddock.sandbox.downloads import fetch
from paddock.sandbox.errors import OperationError
from paddock.sandbox.tasks import Task, Upid
from sandbox.inprocess import Api

CONTENT = b"a template"
RIGHT = ("sha512", hashlib.sha512(CONTENT).hexdigest())
WRONG = ("sha512", "0" * 128)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "t.tar.zst").write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "web")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/t.tar.zst"
    server.shutdown()
    thread.join()
    server.server_close()


def task() -> Task:
    return Task(Upid("pve", 1, 1, 1, "download", "x", "root@pam"))


def test_the_right_file_is_kept_and_not_fetched_twice(url: str, tmp_path: Path) -> None:
    target = tmp_path / "files" / "t.tar.zst"
    fetch(url, target, RIGHT, verify=True, task=task())
    assert target.read_bytes() == CONTENT
    again = task()
    fetch("http://127.0.0.1:1/gone", target, RIGHT, verify=True, task=again)
    assert again.log[-1] == "OK, got correct file already, no need to download"


def test_without_a_checksum_nothing_is_overwritten(url: str, tmp_path: Path) -> None:
    fetch(url, tmp_path / "t", None, verify=True, task=task())
    with pytest.raises(OperationError, match="refusing to override existing file"):
        fetch(url, tmp_path / "t", None, verify=True, task=task())


def test_a_wrong_file_is_not_kept(url: str, tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="checksum mismatch"):
        fetch(url, tmp_path / "files" / "t", WRONG, verify=True, task=task())
    assert list((tmp_path / "files").iterdir()) == []


def test_an_address_that_does_not_answer_is_said(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="download failed"):
        fetch("http://127.0.0.1:1/x", tmp_path / "t", None, verify=True, task=task())


def test_the_call_wants_a_template_and_the_right_to_the_network(tmp_path: Path) -> None:
    api = Api(tmp_path / "state")
    path = "/nodes/pve/storage/local/download-url"
    params = {"content": "vztmpl", "url": "http://127.0.0.1:1/x"}
    root = "root@pam!sandbox"
    assert api.reason("POST", path, filename="x.tar.zst", **params) == "Permission check failed"
    wrong = api.ask("POST", path, root, filename="x.exe", **params)
    assert wrong.json()["errors"] == {"filename": "wrong file extension"}
    assert api.ask("POST", path, root, filename="x.tar.zst", **params).status_code == 200
    api.settle()
    assert "vztmpl/x.tar.zst" in api.world.runtime.templates("pve", "local")
