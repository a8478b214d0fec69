"""Programs in a container through `pct exec`, with a played node. tests/live/test_enter.py has a real one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from paddock.channels import Unreachable
from paddock.channels.pct import PctGuest, read_host_key
from paddock.channels.ssh import SshGuest
from sshd import free_port

KEY, OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIone", "AAAAC3NzaC1lZDI1NTE5AAAAItwo"
NODE = SshGuest("root@node", "node")
BEE = PctGuest("bee", NODE, 105, (KEY,))

# The node's shell runs the command, and its pct runs a program that sees the host key of the test.
FAKE_SSH = """\
#!/bin/sh
printf "%s\\n" "$@" >{folder}/argv
for word; do command=$word; done
exec sh -c "$command"
"""
FAKE_PCT = """\
#!/bin/sh
printf "%s\\n" "$@" >{folder}/pct
[ "$1" = exec ] && [ "$3" = -- ] || exit 255
[ ! -e {folder}/stopped ] || {{ echo "container '$2' not running!" >&2; exit 255; }}
shift 3
exec unshare --mount sh -c 'mkdir -p /etc/ssh; mount -t tmpfs none /etc/ssh; cp "$0" /etc/ssh/ssh_host_ed25519_key.pub
exec "$@"' {folder}/key "$@"
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an ssh and a pct on PATH that record their arguments."""
    for name, script in (("ssh", FAKE_SSH), ("pct", FAKE_PCT)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(script.format(folder=tmp_path))
        program.chmod(0o755)
    (tmp_path / "key").write_text(f"ssh-ed25519 {KEY} root@bee\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    monkeypatch.setenv("TERM", "xterm")
    return tmp_path


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")


def test_the_exact_arguments(node: Path) -> None:
    (node / "stopped").touch()
    with pytest.raises(Unreachable):
        BEE.run(["sh", "-c", "echo 'a b' $HOME; x"], stdin=b"a secret")
    said = (node / "pct").read_text()
    assert said.startswith(
        "exec\n105\n--\nenv\n-i\nHOME=/root\nUSER=root\nLOGNAME=root\nSHELL=/bin/bash\n"
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nTERM=xterm\nsh\n-c\n"
    )
    assert said.endswith(f"\nsh\n{KEY}\nsh\n-c\necho 'a b' $HOME; x\n")
    # ssh joins its arguments with spaces for the node's shell, so there is one, and it is quoted.
    words = (node / "argv").read_text()
    assert "node\n--\nsh -c 'pct exec " in words
    assert "a secret" not in words + said


def test_attach_and_logs_run_pct_directly(node: Path) -> None:
    (node / "stopped").touch()
    for stream in (False, True):
        ended = BEE.stream(["journalctl"], print, print) if stream else BEE.attach(["bash"], terminal=False)
        assert ended == 255
        command = (node / "argv").read_text().split("\nnode\n--\n")[1]
        assert shlex.split(command)[:4] == ["pct", "exec", "105", "--"]


def test_a_container_that_does_not_run_is_unreachable(node: Path) -> None:
    (node / "stopped").touch()
    with pytest.raises(
        Unreachable, match=r"bee cannot be reached with `pct exec 105` on root@node: container '105' not running!"
    ):
        BEE.run(["true"])
    assert read_host_key(NODE, 105) is None


def test_a_node_that_cannot_be_reached_is_named(node: Path) -> None:
    (node / "bin/ssh").write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 255\n")
    refused = "root@node cannot be reached over ssh at node: Connection refused"
    with pytest.raises(Unreachable, match=refused):
        BEE.run(["true"])
    with pytest.raises(Unreachable, match=refused):
        read_host_key(NODE, 105)


@needs_root
@pytest.mark.parametrize("code", [0, 1, 3, 254])
def test_a_program_gets_its_input_and_returns_its_exit_code(node: Path, code: int) -> None:
    result = BEE.run(["sh", "-c", f"cat; pwd; echo $HOME; exit {code}"], stdin=b"a secret\n")
    assert (result.code, result.out) == (code, "a secret\n/root\n/root\n")


@needs_root
def test_another_container_with_the_same_number_is_not_entered(node: Path) -> None:
    for key in (OTHER, "", KEY[:-1]):
        (node / "key").write_text(f"ssh-ed25519 {key}\n")
        with pytest.raises(Unreachable, match="container 105 on root@node is not the machine of bee"):
            BEE.run(["touch", str(node / "entered")])
    assert not (node / "entered").exists()
    (node / "key").write_text(f"ssh-ed25519 {OTHER} x\n")
    assert PctGuest("bee", NODE, 105, (KEY, OTHER)).run(["true"]).ok


@needs_root
def test_a_port_is_forwarded_with_one_program_for_each_connection(node: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body * 2)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        local, port = free_port(), server.server_address[1]
        program = f"from paddock.channels.pct import *\nprint({BEE!r}.forward({local}, {port}))"
        with subprocess.Popen([sys.executable, "-c", f"from pathlib import Path, PosixPath\n{program}"]) as running:
            try:
                large = b"0123456789" * 100_000
                for _ in range(2):
                    assert _fetched(f"http://127.0.0.1:{local}/", large) == large * 2
            finally:
                running.terminate()
        server.shutdown()


def _fetched(url: str, body: bytes) -> bytes:
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url, body, timeout=30) as response:
                return bytes(response.read())
        except urllib.error.URLError:
            assert time.monotonic() < end
            time.sleep(0.1)
