"""Third-party code: root never runs it, it comes from the registry of the machine, and a changed copy is not used."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import sys
import tarfile
import threading
import urllib.error
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest

import paddock
from hostile.ground import Machine, as_root
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.channels.onboard import answer_of, sent
from paddock.kinds.code import CodeTree, Distribution, LocalCode, Tool
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.onboard.code.install import InstallTree, prove
from paddock.onboard.code.packages import FinishTemplate
from paddock.onboard.program.refusal import Refusal
from paddock.runtimes.code import tree as codetree
from paddock.runtimes.code.npm import fetch

# --- what root runs while it is installed and tested


STORE: Final = "/opt/paddock/.store"
CANARY: Final = "/root/taken"
TAKE: Final = f"""
import os, sys
try:
    open({CANARY!r}, "a").write(" ".join(sys.argv) + "\\n")
except OSError:
    pass
"""


def packages(**more: str) -> bytes:
    """Return an archive as Paddock builds it, with a package that writes the canary when it is imported."""
    files = {
        "evil.py": TAKE + "def main(): pass\n",
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil-1.dist-info/entry_points.txt": "[console_scripts]\nevil = evil:main\n",
        **more,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            tar.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def install(ground: Machine, archive: bytes, *proof: str) -> Result:
    python = "/usr/bin/python3" if ground.exists("/usr/bin/python3") else sys.executable
    argv, stdin = sent(InstallTree(STORE, "t1", "", "evil", python, proof), archive, python)
    return answer_of(ground.run(argv, stdin=stdin), "the machine").result


@as_root
def test_the_test_of_a_code_tree_runs_without_privileges(ground: Machine) -> None:
    asked = "import evil, os; os.write(2, b'%d %d' % (os.getuid(), len(os.getgroups())))"
    result = install(ground, packages(), "-c", asked)
    assert not ground.exists(CANARY), "third-party code ran as root"
    assert result.ok, result.err
    assert result.err == "65534 0"
    assert ground.read(f"{STORE}/t1/bin/evil").startswith(f"#!{STORE}/t1/bin/python\n")


@as_root
def test_a_tree_that_others_cannot_reach_is_refused_and_not_tested_as_root(ground: Machine) -> None:
    """A hardened machine may have such an /opt. The agent's account could not reach its code either."""
    ground.run(["sh", "-c", "mkdir -p /opt && chmod 750 /opt"])
    result = install(ground, packages(), "-c", "import evil, os; print(os.getuid())")
    assert not ground.exists(CANARY), "third-party code ran as root"
    assert not result.ok
    assert "other accounts cannot reach /opt/paddock/.store/.new/bin/python" in result.err
    assert not ground.exists(f"{STORE}/t1/bin/python")


@as_root
def test_code_is_not_tested_as_root_if_privileges_cannot_be_dropped(tmp_path: Path) -> None:
    """The Python that drops them fails here, as it does on a machine whose Python lacks a module."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    with pytest.raises(Refusal):
        prove(str(program), "false", ())
    assert not (tmp_path / "ran").exists(), "third-party code ran as root"


@as_root
def test_a_pth_file_of_a_package_does_not_run_as_root(ground: Machine) -> None:
    """Python executes the import lines of a .pth file at every start, also for `-m compileall`."""
    result = install(ground, packages(**{"evil.pth": f"import os; exec({TAKE!r})\n"}), "-c", "import evil")
    assert not ground.exists(CANARY), f"third-party code ran as root: {ground.read(CANARY)}"
    assert result.ok, result.err


@as_root
def test_the_manifest_of_a_template_runs_no_third_party_code(ground: Machine) -> None:
    assert install(ground, packages(**{"evil.pth": f"import os; exec({TAKE!r})\n"}), "-c", "pass").ok
    ground.run(["sh", "-c", "rm -f /root/taken"])
    answer = ground.ask(FinishTemplate())
    assert not ground.exists(CANARY), f"third-party code ran as root: {ground.read(CANARY)}"
    assert "pip evil 1\n" in answer.value


@pytest.fixture
def listener() -> Iterator[int]:
    """Listen on a loopback port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@as_root
def test_the_test_of_a_code_tree_has_no_network(ground: Machine, listener: int) -> None:
    proof = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 3)"
    assert not install(ground, packages(), "-c", proof).ok, "third-party code reached the network"


@as_root
def test_processes_started_by_the_test_of_a_code_tree_are_killed(ground: Machine) -> None:
    proof = "import os, subprocess as s; s.Popen(['sleep', '4321'], stdout=s.DEVNULL, stderr=s.DEVNULL)"
    assert install(ground, packages(), "-c", proof).ok
    left = ground.run(["pgrep", "-f", "sleep 4321"]).out.split()
    for pid in left:
        ground.run(["kill", pid])
    assert not left, "a process that third-party code started is still running"


# --- where it comes from


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


# --- cached code


PYTHON = codetree.Interpreter(sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}", os.uname().machine)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeTree:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny_agent-1.2-py3-none-any.whl"
    info = "tiny_agent-1.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinyagent.py", "print('tiny')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    local = Distribution("tiny-agent", "1.2", (), local=LocalCode(path, "digest"))
    return CodeTree(local, "", (PYTHON.version,), ("-c", "pass"))


def test_a_cached_archive_that_is_damaged_is_built_again(tree: CodeTree) -> None:
    built = codetree.build(tree, PYTHON)
    right = built.read_bytes()
    built.write_bytes(right[: len(right) // 2])
    assert codetree.build(tree, PYTHON).read_bytes() == right, "a truncated archive would be sent to the machine"
    built.write_bytes(right + b"more")
    assert codetree.build(tree, PYTHON).read_bytes() == right, "a damaged archive would be sent to the machine"
    changed = built.stat().st_mtime_ns
    codetree.build(tree, PYTHON)
    assert built.stat().st_mtime_ns == changed, "an intact archive was built again"


def test_a_cached_tool_that_has_changed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PaddockError("it would have to be fetched")

    monkeypatch.setattr(codetree, "fetch", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sha512 = "5c9b" * 32
    kept = tmp_path / "cache/paddock/code" / f"driver-{sha512[:16]}.tgz"
    kept.parent.mkdir(parents=True)
    with tarfile.open(kept, "w:gz") as tar:
        entry = tarfile.TarInfo("package/driver")
        entry.size = 4
        tar.addfile(entry, BytesIO(b"evil"))
    tool = Tool("driver", "1.0.0", sha512, {PYTHON.arch: "package/driver"})
    with suppress(PaddockError):
        codetree._put_tool(tool, PYTHON.arch, tmp_path / "packages")
    put = tmp_path / "packages/driver"
    assert not put.exists(), f"a program with another hash would be sent to the machine: {put.read_bytes()!r}"


def test_npm_reads_no_settings_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted `.npmrc` could send variables of the person to a registry of its own."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    asked: list[str] = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for folder, registry in (("work", url + "/planted/${CANARY}/"), ("home", f"{url}/own/")):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / ".npmrc").write_text(f"registry={registry}\nfetch-retries=0\n")
        (tmp_path / "out").mkdir()
        monkeypatch.chdir(tmp_path / "work")
        monkeypatch.setenv("CANARY", "secret-of-the-person")
        monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / "home/.npmrc"))
        monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "cache"))
        for name in [name for name in os.environ if name.lower() == "npm_config_registry"]:
            monkeypatch.delenv(name)
        with pytest.raises(PaddockError, match="fetching no-such-package"):
            fetch("no-such-package", "1.0.0", "0" * 128, tmp_path / "out", tmp_path / "kept")
        server.shutdown()
    assert set(asked) == {"/own/no-such-package"}
