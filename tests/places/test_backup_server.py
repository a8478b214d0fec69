"""Archives on a Proxmox Backup Server, as far as a client can be tried without one.

The node answers as for a directory; names and forms of archives are written as Proxmox writes those of a backup server.
A real server was never asked.
"""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from paddock.verbs import backup as backups
from places.node import Node, PaperAgent
from places.test_archives import bee, expect_as_before, node, read

__all__ = ["node"]

FILE = re.compile(r"local:backup/vzdump-lxc-(\d+)-(\d{4})_(\d\d)_(\d\d)-(\d\d)_(\d\d)_(\d\d)\.tar\.zst")
SNAPSHOT = re.compile(r"pbs:backup/ct/(\d+)/(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z")


def as_directory(text: str) -> str:
    """Translate what Paddock sends to the storage `pbs` for the directory `local`."""
    named = SNAPSHOT.sub(r"local:backup/vzdump-lxc-\1-\2_\3_\4-\5_\6_\7.tar.zst", text)
    return re.sub(r"/storage/pbs\b", "/storage/local", named)


def as_server(text: str) -> str:
    """Translate what the node answers about the directory to the form of a backup server."""
    named = FILE.sub(r"pbs:backup/ct/\1/\2-\3-\4T\5:\6:\7Z", text)
    return named.replace('"format":"tar.zst"', '"format":"pbs-ct"').replace('"/storage/local":', '"/storage/pbs":')


@pytest.fixture
def server(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the storage `pbs` of the node be a backup server; return the paths that were asked for."""
    directory, asked = node.handle_request, []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        fields = httpx.QueryParams(request.read().decode())
        data = {name: "local" if name == "storage" else as_directory(value) for name, value in fields.items()}
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        url = as_directory(unquote(str(request.url)))
        translated = httpx.Request(request.method, url, headers=headers, data=data or None)
        got = directory(translated)
        return httpx.Response(got.status_code, headers=got.headers, text=as_server(got.read().decode()))

    monkeypatch.setattr(node, "handle_request", answer)
    return asked


def saved_to_it(node: Node, **more: Any) -> PaperAgent:
    return bee(node, backup={"to": {"proxmox": {"storage": "pbs"}}, **more})


def test_backups_on_a_backup_server_are_made_listed_read_and_pruned(node: Node, server: list[str]) -> None:
    assert "on storage pbs" in backups.back_up(saved_to_it(node))
    [row] = backups.listed(saved_to_it(node))
    assert row["agent"] == "bee"
    manifest = read(saved_to_it(node))
    assert [entry["path"] for entry in manifest["entries"]] == ["notes", "notes/learned.md"]
    expect_as_before(node)
    time.sleep(1.1)  # the name of an archive has its second
    backups.back_up(saved_to_it(node))
    told = backups.prune(saved_to_it(node, keep={"last": 1}), dry_run=False)
    assert [line.split()[1] for line in told] == ["removed", "keep"]
    assert len(backups.listed(saved_to_it(node))) == 1
    named = [path for path in server if "backup/" in path]
    assert {bool(SNAPSHOT.search(path)) for path in named} == {True}
