"""Template downloads are verified by checksum and overwrite nothing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pvebox.api.errors import OperationError
from pvebox.cluster.assembly import memory_cluster
from pvebox.cluster.fixture import default_fixture
from pvebox.cluster.tasks import Task, Upid
from pvebox.guests.downloads import fetch
from sandbox.inprocess import Api

CONTENT = b"a template"
RIGHT = ("sha512", hashlib.sha512(CONTENT).hexdigest())
WRONG = ("sha512", "0" * 128)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class has this name
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


def test_a_file_with_the_right_checksum_is_not_downloaded_again(url: str, tmp_path: Path) -> None:
    target = tmp_path / "files" / "t.tar.zst"
    fetch(url, target, RIGHT, verify=True, task=task())
    assert target.read_bytes() == CONTENT
    again = task()
    fetch("http://127.0.0.1:1/gone", target, RIGHT, verify=True, task=again)
    assert again.log[-1] == "OK, got correct file already, no need to download"


def test_a_download_without_a_checksum_does_not_overwrite_a_file(url: str, tmp_path: Path) -> None:
    fetch(url, tmp_path / "t", None, verify=True, task=task())
    with pytest.raises(OperationError, match="refusing to override existing file"):
        fetch(url, tmp_path / "t", None, verify=True, task=task())


def test_a_download_with_a_wrong_checksum_is_not_kept(url: str, tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="checksum mismatch"):
        fetch(url, tmp_path / "files" / "t", WRONG, verify=True, task=task())
    assert list((tmp_path / "files").iterdir()) == []


def test_a_download_from_a_closed_port_fails_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="download failed"):
        fetch("http://127.0.0.1:1/x", tmp_path / "t", None, verify=True, task=task())


def test_the_download_call_needs_a_template_name_and_privileges(tmp_path: Path) -> None:
    api = Api(tmp_path / "state")
    path = "/nodes/pve/storage/local/download-url"
    params = {"content": "vztmpl", "url": "http://127.0.0.1:1/x"}
    root = "root@pam!sandbox"
    assert api.reason("POST", path, filename="x.tar.zst", **params) == "Permission check failed"
    wrong = api.ask("POST", path, root, filename="x.exe", **params)
    assert wrong.json()["errors"] == {"filename": "wrong file extension"}
    assert api.ask("POST", path, root, filename="x.tar.zst", **params).status_code == 200
    api.settle()
    assert "vztmpl/x.tar.zst" in api.cluster.runtime.files("pve", "local")


def test_a_template_of_the_index_is_downloaded_by_its_name(tmp_path: Path) -> None:
    entry = {"template": "t.tar.zst", "location": "http://127.0.0.1:1/t.tar.zst", "sha512sum": RIGHT[1]}
    cluster = memory_cluster(tmp_path / "state", {**default_fixture(), "index": [entry]})
    api = Api(tmp_path / "state", cluster=cluster)
    assert api.data("GET", "/nodes/pve/aplinfo") == [entry]
    root = "root@pam!sandbox"
    upid = api.ask("POST", "/nodes/pve/aplinfo", root, storage="local", template="t.tar.zst").json()["data"]
    assert cluster.tasks.wait(upid, 10).exitstatus == "OK"
    listed = api.data("GET", "/nodes/pve/storage/local/content", content="vztmpl")
    assert "local:vztmpl/t.tar.zst" in [row["volid"] for row in listed]
    assert api.reason("POST", "/nodes/pve/aplinfo", root, storage="local", template="x") == (
        "Parameter verification failed."
    )
    again = Api(tmp_path / "state")  # a server that starts later has the same index
    assert again.data("GET", "/nodes/pve/aplinfo") == [entry]
