"""Docker and Podman on a host: what persists across what, and what is said when it cannot work."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from live.by_hand import api_of, container, destroy
from live.images import bare_root, base_root, official_image
from live.stage import Node, wait_for
from paddock.demo import FACT, QUESTION
from paddock.guests.ssh import scan_host_key

pytestmark = pytest.mark.live

# A package as small as one can be, made and installed where nothing can be downloaded.
_TINY = """
set -e
mkdir -p /tmp/tiny/DEBIAN
printf '%s\\n' 'Package: tiny-tool' 'Version: 1' 'Architecture: all' 'Maintainer: x' 'Description: x' \\
    >/tmp/tiny/DEBIAN/control
dpkg-deb --build /tmp/tiny /tmp/tiny.deb
dpkg --install /tmp/tiny.deb
"""


@dataclass
class Host:
    """A machine with systemd that is reached over ssh, and the agent's file for it."""

    node: Node
    address: str
    key: str  # its ssh host key
    engine: str = "docker"
    container: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)

    def write(self) -> str:
        tree = self.node.file()
        key = str(self.node.stage.folder / "id_ed25519")
        tree["places"] = {
            "box": {"host": {"address": self.address, "key": key, "host_key": scan_host_key(self.address)}}
        }
        tree["agents"]["hermes"] |= {"runtime": self.engine, "container": self.container, **self.agent}
        return str(self.node.write("engine.yaml", tree))

    def paddock(self, verb: str, *words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        return self.node.paddock(verb, *words, "-f", self.write(), fails=fails)

    def inside(self, *argv: str) -> str:
        """What a program beside the agent prints, with `paddock exec`."""
        path = self.write()
        return self.node.paddock("exec", "hermes", "-f", path, "--", *argv).stdout.strip()

    def root(self, script: str) -> str:
        return self.node.shell(self.address, script).strip()

    def id(self) -> str:
        return self.root(f"{self.engine} container inspect --format '{{{{.Id}}}}' paddock-hermes")

    def install_something(self) -> None:
        """As an agent with sudo would: a package, and a file in its home; both in the container's own layer."""
        self.root(f"{self.engine} exec paddock-hermes sh -c {_quoted(_TINY)}")
        self.inside("sh", "-c", "touch ~/made-by-the-agent")

    def has_installed(self) -> bool:
        found = self.root(
            f"{self.engine} exec paddock-hermes sh -c {_quoted('dpkg -s tiny-tool; ls /home/hermes')} 2>&1 || true"
        )
        return "install ok installed" in found and "made-by-the-agent" in found

    def remembers(self) -> bool:
        return FACT in self.paddock("ask", "hermes", QUESTION).stdout


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("roots")
    return {"base": base_root(folder / "base.tar.gz"), "bare": bare_root(folder / "bare.tar.gz")}


@pytest.fixture(scope="module")
def host(node: Node, roots: dict[str, Path]) -> Iterator[Host]:
    """One machine for all stories here; each begins with what the one before has left."""
    api = api_of(node)
    address = container(node, api, 230, memory=3072, rootfs="local-lvm:10")
    try:
        yield Host(node, address, scan_host_key(address) or "")
    finally:
        destroy(api, 230)


def test_what_persists_across_what(host: Host, roots: dict[str, Path]) -> None:
    # From nothing: neither engine nor image.
    host.container = {"base": "debian:12", "archive": str(roots["base"])}
    refused = host.paddock("plan", fails=True)
    assert "is to run in docker, which is not on its machine" in refused.stdout
    host.container["install"] = True
    host.paddock("up")
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert "nothing to do" in host.paddock("up").stdout

    # Beside the agent nobody is root, and nobody becomes it.
    assert host.inside("id", "-u") == "10000"
    assert host.inside("sh", "-c", "echo $HOME $HERMES_HOME") == "/home/hermes /data/.hermes"
    assert "NoNewPrivs:\t1" in host.inside("cat", "/proc/self/status")
    assert "docker[" in host.paddock("logs", "hermes").stdout
    assert host.root("docker inspect -f '{{.HostConfig.RestartPolicy.Name}}' paddock-hermes") == "no"
    host.install_something()
    first = host.id()

    # systemctl restart
    host.root("systemctl restart paddock-hermes-container")
    wait_for(lambda: host.root("docker inspect -f '{{.State.Running}}' paddock-hermes") == "true")
    assert host.id() == first
    assert host.has_installed()

    # Settings and environment (which the seed makes a new container for): the same one.
    host.agent = {"environment": {"COLOUR": "green"}}
    host.agent["settings"] = host.node.file()["agents"]["hermes"]["settings"] | {"display": {"compact": True}}
    assert "its container stays" in host.paddock("plan").stdout
    host.paddock("up")
    assert host.inside("sh", "-c", "echo $COLOUR") == "green"
    assert host.id() == first
    assert host.has_installed()
    assert host.remembers()

    # The machine is rebooted, and nobody runs Paddock.
    host.root("systemctl stop paddock-hermes-lease && systemctl restart docker && systemctl start paddock-hermes-lease")
    wait_for(lambda: host.node.paddock("status", "--json", "-f", host.write()).stdout.count('"ok"') > 0)
    assert host.id() == first
    assert host.has_installed()

    # Another image: what goes is named before, the state stays.
    host.container["archive"] = str(roots["bare"])
    planned = host.paddock("plan").stdout
    assert "its image changed: another container" in planned
    assert "lost with it: tiny-tool" in planned
    host.paddock("up")
    assert host.id() != first
    assert not host.has_installed()
    assert host.remembers()
    assert host.inside("id", "-un") == "hermes", "made without any tool for accounts"
    assert "NoNewPrivs:\t1" in host.inside("cat", "/proc/self/status")

    # Volumes and options; and being asked to.
    second = host.id()
    host.root("mkdir -p /srv/library && echo words >/srv/library/book")
    host.agent["mounts"] = [{"host": "/srv/library", "path": "/library", "read_only": True}]
    host.container["options"] = ["--label", "mine=yes"]
    assert "its options and volumes or mounts changed" in host.paddock("plan").stdout
    host.paddock("up")
    assert host.id() != second
    assert host.inside("cat", "/library/book") == "words"
    third = host.id()
    host.paddock("up", "--recreate")
    assert host.id() != third
    assert host.remembers()

    host.paddock("down")
    assert host.root("docker ps --all --quiet") == ""
    assert host.root(
        "ls /etc/paddock /opt/paddock 2>/dev/null; cat /var/lib/paddock/hermes/.paddock/identity | head -1"
    )


def test_the_same_agent_in_podman_goes_on_where_docker_ended(host: Host, roots: dict[str, Path]) -> None:
    host.engine = "podman"
    host.container = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    host.paddock("up")
    assert host.remembers()
    assert "nothing to do" in host.paddock("up").stdout
    assert host.inside("id", "-u") == "10000"
    host.install_something()
    same = host.id()
    host.agent["environment"] = {"COLOUR": "blue"}
    host.paddock("up")
    assert host.id() == same
    assert host.has_installed()
    assert host.inside("sh", "-c", "echo $COLOUR") == "blue"
    assert "lost with it: tiny-tool" in host.paddock("plan", "--set", "agents.hermes.container.shm_size=2G").stdout
    host.paddock("down")


def test_an_image_that_brings_the_code(host: Host, tmp_path: Path) -> None:
    host.engine, host.agent = "docker", {}
    host.container = {
        "image": "nousresearch/hermes-agent:stand-in",
        "archive": str(official_image(tmp_path / "official.tar")),
        "install": True,
    }
    host.paddock("up")
    assert host.remembers(), "its state is the same, wherever the image wants it"
    assert host.inside("id", "-u") == "10000"
    main = host.root("docker inspect -f '{{.State.Pid}}' paddock-hermes")
    assert host.root(f"stat -c %u /proc/{main}") == "10000", "it has dropped from root"
    first = host.id()
    host.agent["environment"] = {"COLOUR": "red"}
    host.paddock("up")
    assert host.id() == first
    assert host.inside("sh", "-c", "echo $COLOUR") == "red"
    host.paddock("down")
