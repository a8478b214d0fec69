"""Finding 24: the address of a package registry was fixed in the code, whatever registry a machine uses."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.errors import PaddockError
from paddock.recipes.code import Tool
from paddock.recipes.hermes.recipe import Hermes
from paddock.recipes.hermes.spec import HermesSpec
from paddock.runtimes import codetree

with_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed on this machine")


class Registry(BaseHTTPRequestHandler):
    """A package registry with one version of each package."""

    archive = b""
    asked: list[str]
    versions: dict[str, str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name = self.path.strip("/").split("/")[0]
        here = f"http://{self.headers['Host']}"
        version = self.versions.get(name)
        if self.path.endswith(".tgz"):
            self._answer(200, self.archive, "application/octet-stream")
        elif version is None:
            self._answer(404, b"{}", "application/json")
        else:
            dist = {
                "tarball": f"{here}/{name}/-/{name}-{version}.tgz",
                "shasum": hashlib.sha1(self.archive).hexdigest(),
            }
            about = {"name": name, "version": version, "dist": dist}
            packument = {"name": name, "dist-tags": {"latest": version}, "versions": {version: about}}
            self._answer(200, json.dumps(packument).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the name in the base class
        pass


def packed(program: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in (("package/package.json", b"{}"), ("package/driver", program)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Registry]]:
    """Start a registry and configure npm to use it."""
    content = packed(b"#!/bin/sh\n")

    class Own(Registry):
        archive = content
        asked: list[str] = []  # noqa: RUF012
        versions = {"agent-browser": "0.41.0", "driver": "1.0.0"}  # noqa: RUF012

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "npmrc").write_text(f"registry=http://127.0.0.1:{server.server_address[1]}/\n")
    for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / "npmrc"))
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Own
    server.shutdown()
    server.server_close()


def browser_helper() -> Tool:
    agent = HermesSpec.model_validate({"kind": "hermes", "version": "0.19.0", "place": "home", "browser": True})
    tree = Hermes().code(agent, Path())
    assert tree is not None
    return tree.tools[0]


@with_npm
def test_the_browser_helper_comes_from_the_registry_of_the_machine(
    registry: type[Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere: list[str] = []

    def refuse(url: Any, *_: Any, **__: Any) -> None:
        elsewhere.append(str(url))
        raise urllib.error.URLError("this machine reaches its own registry only")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    said = ""
    try:
        codetree._put_tool(browser_helper(), "x86_64", tmp_path / "packages")
    except PaddockError as error:
        said = error.message
    assert not elsewhere, f"another registry was asked: {elsewhere}"
    assert any("agent-browser" in path for path in registry.asked), "the registry of the machine was not asked"
    # The hash is pinned, and this registry has another archive under that name and version.
    assert "agent-browser@0.41.0 does not have the expected content" in said
    assert not (tmp_path / "packages/agent-browser").exists()


@with_npm
def test_a_package_with_the_right_hash_is_used_and_cached(registry: type[Registry], tmp_path: Path) -> None:
    digest = hashlib.sha512(registry.archive).hexdigest()
    tool = Tool("driver", "1.0.0", digest, {"x86_64": "package/driver"})
    with suppress(ValueError):  # raised by earlier versions, which expected a URL
        codetree._put_tool(tool, "x86_64", tmp_path / "packages")
    put = tmp_path / "packages/driver"
    assert put.exists(), "a package cannot be fetched by its name and version"
    assert put.read_bytes() == b"#!/bin/sh\n"
    fetched = len(registry.asked)
    put.unlink()
    codetree._put_tool(tool, "x86_64", tmp_path / "packages")
    assert len(registry.asked) == fetched, "a cached package was fetched again"


@with_npm
def test_a_package_that_the_registry_does_not_have_is_an_error_with_a_hint(
    registry: type[Registry], tmp_path: Path
) -> None:
    tool = Tool("unknown-driver", "1.0.0", "0" * 128, {"x86_64": "package/driver"})
    said = hint = ""
    try:
        codetree._put_tool(tool, "x86_64", tmp_path / "packages")
    except PaddockError as error:
        said, hint = error.message, error.hint or ""
    except ValueError as error:
        said = f"a traceback: {error}"
    assert said.startswith("fetching unknown-driver@1.0.0 failed"), said
    assert "npm config get registry" in hint


def test_without_npm_the_hint_says_how_to_fetch_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(url: Any, *_: Any, **__: Any) -> None:
        asked.append(str(url))
        raise urllib.error.URLError("unreachable")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(PaddockError) as caught:
        codetree._put_tool(browser_helper(), "x86_64", tmp_path / "packages")
    assert not asked, f"an address fixed in the code was used: {asked}"
    assert caught.value.message == "fetching agent-browser@0.41.0 needs npm, which is not installed"
    assert "npm pack agent-browser@0.41.0" in (caught.value.hint or "")


def test_the_code_contains_no_address_of_a_registry_or_mirror() -> None:
    source = Path(paddock.__file__).parent
    written = [
        f"{path.relative_to(source)}: {found}"
        for path in [*source.rglob("*.py"), *source.rglob("*.sh")]
        for found in re.findall(r"https?://[\w-]+(?:\.[\w-]+)+/\S*", path.read_text())
        if re.search(r"registry|npmjs|pypi|pythonhosted|debian\.org|docker\.io|ghcr|quay", found)
    ]
    assert written == []
