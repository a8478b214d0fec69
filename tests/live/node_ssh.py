"""The shell of the node over ssh: a real sshd in a container, whose `pct` and other commands run in the sandbox."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from live.manual import api_client, container, destroy
from live.node import Node
from live.node_root import root
from paddock.channels.ssh import scan_host_key

PORT = 2222
VMID = 240
COMMANDS = ("pct", "mkdir", "chown", "ls", "mountpoint")
_COMMAND = """\
#!/usr/bin/python3
import json, os, sys, urllib.request
argv = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
with urllib.request.urlopen("{door}", json.dumps(argv).encode(), timeout=300) as answer:
    said = json.load(answer)
sys.stdout.write(said["out"])
sys.stderr.write(said["err"])
sys.exit(said["code"])
"""
_LISTEN = f"""
echo Port {PORT} >/etc/ssh/sshd_config.d/port.conf
systemctl disable --quiet --now ssh.socket 2>/dev/null || true
systemctl restart ssh
"""

_CONFIG = """\
Host *
IdentityFile {key}
IdentitiesOnly yes
UserKnownHostsFile {home}/known_hosts
GlobalKnownHostsFile /dev/null
"""
# ssh reads ~/.ssh/config of the account, whatever HOME is. This wrapper makes it read another file, also where the
# configuration that Paddock writes includes ~/.ssh/config.
_SSH = """\
#!/bin/sh
for word; do
    if [ "$before" = -F ] && [ -f "$word" ]; then
        sed 's|~/.ssh/config|{home}/config|' "$word" >{home}/config-of-paddock.$$
        mv {home}/config-of-paddock.$$ {home}/config-of-paddock
        word={home}/config-of-paddock
    fi
    before=$word
    set -- "$@" "$word"
    shift
done
exec /usr/bin/ssh -F {home}/config "$@"
"""


@dataclass(frozen=True)
class NodeShell:
    """The ssh server of the node, and an ssh command that can log in there."""

    node: Node  # its commands find the ssh wrapper
    address: str
    home: Path  # with the wrapper, its configuration and known_hosts

    @property
    def destination(self) -> str:
        return f"root@{self.address}:{PORT}"

    @contextmanager
    def another_host_key(self, key: Path) -> Iterator[None]:
        """Record another host key for the node while the block runs."""
        record = self.home / "known_hosts"
        right = record.read_text()
        record.write_text(f"{right.split()[0]} {key.with_suffix('.pub').read_text()}")
        try:
            yield
        finally:
            record.write_text(right)

    @contextmanager
    def another_login(self, key: Path) -> Iterator[None]:
        """Use an ssh key that the node does not accept while the block runs."""
        config = self.home / "config"
        right = config.read_text()
        config.write_text(right.replace(str(self.node.stage.folder / "id_ed25519"), str(key)))
        try:
            yield
        finally:
            config.write_text(right)

    @contextmanager
    def instead_of(self, command: str, script: str) -> Iterator[None]:
        """Replace a command of the node by a script that fails while the block runs."""
        path = f"/usr/local/bin/{command}"
        body = shlex.quote(f"#!/bin/sh\n{script}\nexit 1\n")
        self.root(f"mv {path} {path}.was && printf %s {body} >{path} && chmod 755 {path}")
        try:
            yield
        finally:
            self.root(f"mv {path}.was {path}")

    def root(self, script: str) -> None:
        done = self.run(script)
        assert done.returncode == 0, done.stderr

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as `… | ssh root@node sh` does."""
        where = ["-p", str(PORT), f"root@{self.address}"]
        return subprocess.run([str(self.home / "bin/ssh"), *where, "sh"], input=script, capture_output=True, text=True)


def with_ssh(node: Node, home: Path) -> Node:
    """Return the node for commands whose ssh reads its configuration and its known_hosts from a folder."""
    (home / "bin").mkdir()
    ssh = home / "bin/ssh"
    ssh.write_text(_SSH.format(home=home))
    ssh.chmod(0o755)
    (home / "config").write_text(_CONFIG.format(key=node.stage.folder / "id_ed25519", home=home))
    return node.with_environment(PATH=f"{home}/bin:{node.stage.environment['PATH']}")


@contextmanager
def node_shell(node: Node, home: Path) -> Iterator[NodeShell]:
    """Create a container with the ssh server of the node. Paddock does not know this container."""
    own = with_ssh(node, home)
    api = api_client(node)
    with _door(node) as door:
        address = container(node, api, VMID)
        try:
            command = shlex.quote(_COMMAND.format(door=door))
            make = f"printf %s {command} >/usr/local/bin/pct && chmod 755 /usr/local/bin/pct"
            links = " && ".join(f"ln -s pct /usr/local/bin/{name}" for name in COMMANDS[1:])
            node.shell(address, f"{make} && {links}\n{_LISTEN}")
            shell = NodeShell(own, address, home)
            (home / "known_hosts").write_text(f"[{address}]:{PORT} {scan_host_key(address, PORT)}\n")
            yield shell
        finally:
            destroy(api, VMID)


@contextmanager
def _door(node: Node) -> Iterator[str]:
    """Serve the commands of the node over HTTP, for the container with the ssh server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            argv = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ended = root(node, *argv)
            said = {"code": ended.returncode, "out": ended.stdout, "err": ended.stderr}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    with ThreadingHTTPServer((node.gateway, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{node.gateway}:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
