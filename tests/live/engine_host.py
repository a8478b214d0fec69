"""Docker and Podman on a host over ssh: the host, the file of one agent for it, and fixtures of the tests with them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from live.manual import api_client, container, destroy, reboot
from live.node import Node
from paddock.base.process import run
from paddock.channels.ssh import scan_host_key

VMID = 230  # of the host
# The data of the engines is on volumes of its own. The root disk of the node's containers is an overlay, on which the
# engines could only copy whole images for each container. tests/live/test_docker_lxc.py has an engine that does.
ENGINE_DISKS = {
    "mp0": "local-lvm:10,mp=/var/lib/docker",
    "mp1": "local-lvm:10,mp=/var/lib/containers",
    "mp2": "local-lvm:10,mp=/home/someone/.local/share/containers",  # for Podman without root
}

# A tiny package that is built and installed without a download.
_TINY = """
set -e
mkdir -p /tmp/tiny/DEBIAN
printf '%s\\n' 'Package: tiny-tool' 'Version: 1' 'Architecture: all' 'Maintainer: x' 'Description: x' \\
    >/tmp/tiny/DEBIAN/control
dpkg-deb --build /tmp/tiny /tmp/tiny.deb
dpkg --install /tmp/tiny.deb
"""
# A service that starts quickly, for tests about the container and not about the agent.
SERVICE = {
    "kind": "service",
    "command": ["python3", "-m", "http.server", "8123", "--bind", "127.0.0.1"],
    "health": {"http": "http://127.0.0.1:8123/"},
    "user": {"name": "web", "uid": 12000},
}


@dataclass
class Host:
    """A machine with systemd that is reached over ssh, and the file of one agent for it."""

    node: Node
    address: str
    key: str  # its ssh host key
    name: str = "web"
    agent: dict[str, Any] = field(default_factory=dict)
    base: str = ""  # archive of the base image of `web`, if that may be up
    account: str = "root"  # for the ssh login

    def becomes(self, name: str, **agent: Any) -> None:
        """Replace the agent in the file."""
        kind = self.node.file()["agents"]["hermes"] if name == "hermes" else SERVICE
        self.name, self.agent = name, {**kind, "place": "box", **agent}

    def becomes_web(self) -> None:
        """Put the service of the fixture `web` into the file."""
        base = {"base": "debian:12", "archive": self.base, "install": True}
        self.becomes("web", runtime="docker", container=base)

    @property
    def engine(self) -> str:
        return str(self.agent["runtime"])

    def write(self) -> str:
        identity = str(self.node.stage.folder / "id_ed25519")
        host = {"address": self.address, "key": identity, "host_key": self.key, "user": self.account}
        place = {"host": host if self.account == "root" else {**host, "scope": "user"}}
        return str(
            self.node.write(
                "engine.yaml", {"project": "home", "places": {"box": place}, "agents": {self.name: self.agent}}
            )
        )

    def paddock(self, verb: str, *words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        return self.node.paddock(verb, *words, "-f", self.write(), fails=fails)

    def up(self) -> None:
        self.paddock("up")

    def fails_with(self, sentence: str) -> None:
        failed = self.paddock("up", fails=True)
        assert sentence in failed.stderr, failed.stderr
        assert "Traceback" not in failed.stderr

    def plan(self, *words: str) -> str:
        return self.paddock("plan", *words).stdout

    def inside(self, script: str) -> str:
        """Run a shell script next to the agent with `paddock exec`, and return its output."""
        return self.node.paddock("exec", self.name, "-f", self.write(), "--", "sh", "-c", script).stdout.strip()

    def root(self, script: str) -> str:
        return self.node.shell(self.address, script).strip()

    def send(self, file: Path, script: str) -> None:
        """Run a script as root on the machine with a file as its standard input."""
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        identity = str(self.node.stage.folder / "id_ed25519")
        sent = run(["ssh", *options, "-i", identity, f"root@{self.address}", script], stdin=file, deadline=120)
        assert sent.ok, sent.err

    def by_engine(self, command: str) -> str:
        """Run a command of the engine as the account that owns the container, and return its output."""
        become = f"cd / && runuser -u {self.account} -- env -u XDG_RUNTIME_DIR" if self.account != "root" else ""
        return self.root(f"{become} {self.engine} {command}")

    def inside_as_root(self, script: str) -> str:
        return self.by_engine(f"exec paddock-home_{self.name} sh -c {shlex.quote(script)}")

    @contextmanager
    def disk_with_only(self, megabytes: int) -> Iterator[None]:
        """Fill the disks of the machine, except some megabytes, while the block runs."""
        fill = f'fallocate -l $(($(df -B1 --output=avail "$disk" | tail -n 1) - ({megabytes} << 20))) "$disk/full"'
        # fallocate cannot take the last blocks; writing does.
        rest = "" if megabytes else 'head -c 1G /dev/zero >"$disk/rest" || true'
        try:
            self.root(f"for disk in / /var/lib/docker; do\n{fill}\n{rest}\ndone")
            yield
        finally:
            self.root("rm -f /full /rest /var/lib/docker/full /var/lib/docker/rest")

    def id(self) -> str:
        return self.by_engine(f"container inspect --format '{{{{.Id}}}}' paddock-home_{self.name}")

    def installs_something(self) -> None:
        """Install a package and write files in the container's own layer, as an agent with sudo would."""
        self.inside_as_root(_TINY)
        self.inside("touch ~/made-by-the-agent /tmp/kept")

    def images(self) -> list[str]:
        return self.root(f"{self.engine} images --format '{{{{.Repository}}}}:{{{{.Tag}}}}'").split()

    def has_installed(self) -> bool:
        found = self.inside_as_root(f"dpkg -s tiny-tool 2>&1; ls /home/{self.name} /tmp; true")
        return all(word in found for word in ("install ok installed", "made-by-the-agent", "kept"))

    def reboot(self) -> None:
        reboot(api_client(self.node), VMID)

    def runs(self) -> bool:
        running = f"{self.engine} inspect --format '{{{{.State.Running}}}}' paddock-home_{self.name}"
        return (
            self.root(f"systemctl is-active paddock-home_{self.name}.container && {running} || true") == "active\ntrue"
        )


@pytest.fixture(scope="module")
def machine(node: Node) -> Iterator[Host]:
    """One machine for all tests of a file. Each test finds what the earlier ones left."""
    api = api_client(node)
    address = container(node, api, VMID, memory=3072, rootfs="local-lvm:10", **ENGINE_DISKS)
    try:
        yield Host(node, address, scan_host_key(address) or "")
    finally:
        destroy(api, VMID)


@pytest.fixture
def host(machine: Host) -> Host:
    """The machine without the service of `web`."""
    if machine.base:
        machine.becomes_web()
        machine.paddock("down")
        machine.base = ""
    return machine


@pytest.fixture
def web(machine: Host, roots: dict[str, Path]) -> Host:
    """A service in Docker, with a small base image. It stays up for the next test, because images take time to load."""
    machine.base = str(roots["base"])
    machine.becomes_web()
    machine.up()
    return machine
