"""Docker and Podman on a host over ssh: which changes keep the container, and how failures are reported."""

from __future__ import annotations

import errno
import json
import re
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pydantic
import pytest

import paddock
from levels import slow_proof
from live.images import (
    FOREIGN_PROGRAM,
    bare_root,
    base_root,
    image_without_its_layer,
    minimal_root,
    root_with_shell,
    root_with_user,
    root_without_python,
    saved_image,
)
from live.manual import api_client, container, destroy, reboot
from live.node import Node, kill_at_step, wait_for
from live.official_image import NAME, official_image
from live.test_native import ACCOUNT
from paddock.demo import FACT, QUESTION, VERSION
from paddock.guests.ssh import scan_host_key
from paddock.process import run
from paddock.recipes.hermes.launch import REFUSED

pytestmark = pytest.mark.live

VMID = 230  # of the host

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
_SERVICE = {
    "kind": "service",
    "command": ["python3", "-m", "http.server", "8123", "--bind", "127.0.0.1"],
    "health": {"http": "http://127.0.0.1:8123/"},
    "user": {"name": "web", "uid": 12000},
}


# Ignores SIGTERM, so that a successor that starts too early finds the port taken.
_STUBBORN = """
import http.server, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.test(http.server.SimpleHTTPRequestHandler, http.server.ThreadingHTTPServer, port=8123, bind="127.0.0.1")
"""


@dataclass
class Host:
    """A machine with systemd that is reached over ssh, and the file of one agent for it."""

    node: Node
    address: str
    key: str  # its ssh host key
    name: str = "web"
    agent: dict[str, Any] = field(default_factory=dict)
    base: str = ""  # archive of the base image
    account: str = "root"  # for the ssh login

    def becomes(self, name: str, **agent: Any) -> None:
        """Replace the agent in the file."""
        kind = self.node.file()["agents"]["hermes"] if name == "hermes" else _SERVICE
        self.name, self.agent = name, {**kind, "place": "box", **agent}

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
        """Fill the disk of the machine, except some megabytes, while the block runs."""
        fill = f"fallocate -l $(($(df -B1 --output=avail / | tail -n 1) - ({megabytes} << 20))) /full"
        # fallocate cannot take the last blocks; writing does.
        self.root(fill if megabytes else f"{fill}; head -c 1G /dev/zero >/rest; true")
        try:
            yield
        finally:
            self.root("rm -f /full /rest")

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
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("roots")
    return {"base": base_root(folder / "base.tar.gz"), "bare": bare_root(folder / "bare.tar.gz")}


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return official_image(tmp_path_factory.mktemp("official") / "official.tar")


@pytest.fixture(scope="module")
def host(node: Node) -> Iterator[Host]:
    """One machine for all tests here. Each test finds what the earlier ones left."""
    api = api_client(node)
    address = container(node, api, VMID, memory=3072, rootfs="local-lvm:10")
    try:
        yield Host(node, address, scan_host_key(address) or "")
    finally:
        destroy(api, VMID)


@pytest.fixture
def web(host: Host, roots: dict[str, Path]) -> Iterator[Host]:
    """A service in Docker, with a small base image."""
    base = {"base": "debian:12", "archive": str(roots["base"]), "install": True}
    host.becomes("web", runtime="docker", container=base)
    host.base = str(roots["base"])
    host.up()
    yield host
    host.becomes("web", runtime="docker", container=base)
    host.paddock("down")


def test_an_agent_runs_in_docker(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["base"])}
    host.becomes("hermes", runtime="docker", container=base)
    assert "hermes runs in docker, which is not installed on its machine" in host.paddock("plan", fails=True).stdout
    host.agent["container"] = base | {"install": True}
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert "nothing to do" in host.paddock("up").stdout

    assert host.inside("id -u; echo $HOME $HERMES_HOME") == "10000\n/home/hermes /data/.hermes"
    assert "NoNewPrivs:\t1" in host.inside("cat /proc/self/status")
    assert "docker[" in host.paddock("logs", "hermes").stdout
    host.paddock("down")
    assert host.root("docker ps --all --quiet; ls -A /etc/paddock /var/lib/paddock/hermes").split() == [
        *("/etc/paddock:", "/var/lib/paddock/hermes:", ".paddock", "home")
    ]


def test_a_backup_of_an_agent_in_a_container_comes_back(web: Host) -> None:
    web.agent["backup"] = {"to": "./of-web"}
    web.inside("echo first >/data/note")
    assert "in backup" in web.paddock("backup", "web").stdout
    made = web.id()
    web.inside("echo second >/data/note && touch /data/extra")
    assert "restored from backup" in web.paddock("restore", "web", "--yes").stdout
    assert web.inside("cat /data/note; ls /data") == "first\nnote\nworkspace"
    assert web.id() == made, "the software in the container is kept"
    assert "up and working" in web.paddock("restart", "web").stdout
    assert web.runs()
    assert web.plan() == "web: nothing to do\n"


# Prints the error numbers of a datagram and of a connection to each host and port; 0 stands for success.
_PROBE = """
import errno, socket, sys
for where in sys.argv[1:]:
    host, port = where.split(",")
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as tried:
            tried.settimeout(4)
            try:
                tried.connect((host, int(port)))
                tried.send(b"x")
                print(0)
            except OSError as error:
                print(error.errno or errno.ETIMEDOUT)
"""
_CLOSED = [str(number) for number in (errno.EPERM, errno.EHOSTUNREACH)]


def limits_a_container(web: Host) -> None:
    """Check that the agent's container reaches nothing around it, and does not start where it could."""
    node, api, there = web.node, socket.create_server((web.node.gateway, 0)), web.address
    with api:
        around = [f"{node.gateway},{api.getsockname()[1]}", f"{there},22", "127.0.0.1,22"]
        probe = shlex.join(["python3", "-c", _PROBE, *around])
        assert web.root(f"{probe} | sort -u") == "0", "the test would prove nothing"
        assert web.inside(f"{probe} | sort -u") == "0"
        before = web.id()
        web.agent["network"] = {"egress": "internet"}
        assert "its container stays, with the software installed in it" in web.plan()
        web.up()
        assert web.id() == before
        assert web.inside(probe).split() == _CLOSED * len(around)
        assert web.inside(shlex.join(["python3", "-c", _PROBE, "127.0.0.1,8123"])).split() == [_CLOSED[0], "0"]
        assert "✓ egress.closed" in web.paddock("verify").stdout

        # Another network, or other users, than those that the table is for.
        web.root(
            "sed -i s/net:/other:/ /etc/paddock/home_web/namespaces; systemctl restart paddock-home_web.container; true"
        )
        wait_for(lambda: web.root("systemctl is-active paddock-home_web.container || true") == "failed")
        assert "egress would have no effect" in web.paddock("logs", "web").stdout
        web.root("systemctl restart paddock-home_web.egress")
        wait_for(web.runs)
        assert web.inside(probe).split() == _CLOSED * len(around)

        del web.agent["network"]
        web.up()
        assert web.inside(f"{probe} | sort -u") == "0"
        assert web.root("nft list tables | grep paddock || true") == ""


def test_egress_limits_a_container_of_docker(web: Host) -> None:
    limits_a_container(web)


@slow_proof
def test_egress_limits_a_container_of_podman(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    host.becomes("web", runtime="podman", container=base)
    host.up()
    limits_a_container(host)
    host.paddock("down")


@slow_proof
def test_new_code_keeps_the_container(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["base"]), "install": True}
    host.becomes("hermes", runtime="docker", container=base)
    host.up()
    host.installs_something()
    first, trees = host.id(), "ls /opt/paddock/home_hermes"
    before = host.root("readlink -f /opt/paddock/home_hermes/current")
    host.agent["extras"], host.agent["programs"] = ["mcp"], ["node", "uv"]
    assert "its container stays, with the software installed in it" in host.plan()
    host.up()
    assert host.id() == first
    assert host.has_installed()
    # The code that runs and the code before it are kept.
    assert host.root("readlink -f /opt/paddock/home_hermes/previous") == before
    assert host.root("readlink -f /opt/paddock/home_hermes/current") != before
    assert len(host.root(trees).split()) == 4
    # The agent runs the new code without a manual restart.
    running = host.root("docker top paddock-home_hermes -eo pid,args")
    assert host.root("readlink /opt/paddock/home_hermes/current") in running
    assert "mcp" in host.inside("/opt/paddock/home_hermes/current/bin/python -c 'import mcp; print(mcp.__name__)'")
    assert re.fullmatch(r"v24\.\S+\n1\d\.\S+\nuvx \S+.*", host.inside("node --version; npx --version; uvx --version"))
    host.paddock("down")


@slow_proof
def test_every_troubleshooting_entry_of_the_seed_is_prevented_or_reported(host: Host, roots: dict[str, Path]) -> None:
    """Every entry of the seed's section on troubleshooting."""
    base = {"base": "debian:12", "archive": str(roots["base"]), "install": True}
    host.becomes("hermes", runtime="docker", container=base, cli_on_path=True)
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    host.installs_something()
    first = host.id()

    # Service logs: `logs` shows the journal of the machine.
    said = host.root("journalctl --unit paddock-home_hermes.container --identifier docker --output cat --lines 1")
    assert said in host.paddock("logs", "hermes").stdout

    # Container inspection: health, a shell, the current code, the identity.
    assert "health" in (status := host.paddock("status").stdout)
    assert "ok" in status
    assert host.inside("bash -c 'id -un'") == "hermes"
    current = "readlink /opt/paddock/home_hermes/current"
    assert host.inside(current) == host.root(current)
    labels = host.root("docker inspect -f '{{json .Config.Labels}}' paddock-home_hermes")
    assert "image=" in labels
    assert '"paddock.agent":"home_hermes"' in labels

    # Commands that change the configuration are refused, in the container and on the machine.
    for command in ("hermes config set model.default other", "hermes setup", "hermes gateway install"):
        assert host.inside(f"{command} 2>&1 </dev/null || echo $?").splitlines() == [REFUSED, "1"]
        assert host.root(f"{command} 2>&1 </dev/null || echo $?").splitlines() == [REFUSED, "1"]
    assert host.root("hermes config path </dev/null") == host.inside("hermes config path")
    told = host.root("cd / && runuser -u nobody -- hermes config path 2>&1 || true")
    assert told == "hermes runs in the container of hermes, which only root can enter: sudo hermes"

    # The state is closed to other accounts. A restart gives files of root in it to the agent.
    assert "Permission denied" in host.root("runuser -u nobody -- ls /var/lib/paddock/hermes 2>&1 || true")
    host.inside_as_root("umask 077; echo left >/data/workspace/by-root")
    assert "Permission denied" in host.inside("cat /data/workspace/by-root 2>&1 || true")
    host.root("systemctl restart paddock-home_hermes.container")
    wait_for(lambda: host.inside("cat /data/workspace/by-root 2>/dev/null || true") == "left")

    # `up` installs removed code again and keeps the container.
    host.root("rm -r /opt/paddock/.store/*; systemctl restart paddock-home_hermes.container")
    assert "install the code of hermes" in host.plan()
    host.up()
    assert host.id() == first
    assert host.has_installed()

    # Recreation by force, as the seed does it. `up --recreate` is the other way.
    host.root("systemctl stop paddock-home_hermes.container && docker rm -f paddock-home_hermes")
    host.up()
    assert host.id() != first
    assert not host.has_installed()
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")
    assert host.root("ls /usr/local/bin") == ""


@slow_proof
def test_memory_survives_a_switch_from_podman_to_docker(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    host.becomes("hermes", runtime="podman", container=base)
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    host.paddock("down")
    host.agent["runtime"] = "docker"
    host.up()
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")


def test_the_container_persists_across_restarts_and_settings_but_not_images(web: Host, roots: dict[str, Path]) -> None:
    web.installs_something()
    web.inside("echo precious >/data/memory")
    first = web.id()

    # systemctl restart; and a reboot
    for restart in (lambda: web.root("systemctl restart paddock-home_web.container"), web.reboot):
        restart()
        wait_for(web.runs)
        assert web.id() == first
        wait_for(web.has_installed)

    # New settings, secrets and environment keep the container. (The seed recreates it.)
    web.agent |= {"environment": {"COLOUR": "green"}, "secrets": {"STANDIN_KEY": {"env": "STANDIN_KEY"}}}
    assert "its container stays, with the software installed in it" in web.plan()
    web.up()
    assert web.id() == first
    assert web.has_installed()
    assert web.inside('test -n "$STANDIN_KEY" && echo $COLOUR; cat /data/memory') == "green\nprecious"

    # A new image: the plan names the packages that are lost.
    web.agent["container"] = {**web.agent["container"], "archive": str(roots["bare"])}
    planned = web.plan()
    assert "its image changed; the state of" in planned
    assert "lost with the container: tiny-tool" in planned
    web.up()
    second = web.id()
    assert second != first
    assert not web.has_installed()
    assert web.inside("cat /data/memory") == "precious"

    # New volumes, new options, and --recreate.
    web.root("mkdir -p /srv/library && echo words >/srv/library/book")
    web.agent["mounts"] = [{"host": "/srv/library", "path": "/library", "read_only": True}]
    web.agent["container"] |= {"options": ["--label", "mine=yes"]}
    assert "its options and volumes or mounts changed" in web.plan()
    web.up()
    third = web.id()
    assert third != second
    assert web.inside("cat /library/book /data/memory") == "words\nprecious"
    web.paddock("up", "--recreate")
    assert web.id() != third


def test_a_service_runs_in_podman_with_a_base_without_account_tools(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    host.becomes("web", runtime="podman", container=base)
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    assert host.inside("id -un; grep NoNewPrivs /proc/self/status; cat /data/memory") == "web\nNoNewPrivs:\t1\nprecious"
    host.installs_something()
    same = host.id()
    host.agent["environment"] = {"COLOUR": "blue"}
    host.up()
    assert host.id() == same
    assert host.has_installed()
    assert host.inside("echo $COLOUR") == "blue"
    assert "lost with the container: tiny-tool" in host.plan("--set", "agents.web.container.shm_size=2G")
    host.paddock("down")


# What root prepares once: the account, the engine, and a range of subordinate uids.
_ACCOUNT = f"""
{ACCOUNT}
apt-get install -y -qq --no-install-recommends podman uidmap >/dev/null 2>&1
"""
_NO_RANGE = "sed -i '/^someone:/d' /etc/subuid /etc/subgid"
_RANGE = f"{_NO_RANGE} && usermod --add-subuids 20000-59999 --add-subgids 20000-59999 someone"


@pytest.fixture
def rootless(host: Host, roots: dict[str, Path]) -> Iterator[Host]:
    """Podman without root, in an account of the machine."""
    host.root(f"id someone >/dev/null 2>&1 || {{ {_ACCOUNT} }}; {_RANGE}")
    host.account = "someone"
    yield host
    host.account = "root"


@slow_proof
def test_a_service_runs_in_rootless_podman(rootless: Host, roots: dict[str, Path]) -> None:
    host = rootless
    base = {"base": "debian:12", "archive": str(roots["bare"])}
    host.becomes("web", runtime="podman", container=base)
    host.root(_NO_RANGE)
    refused = host.paddock("plan", fails=True).stdout
    assert "the account someone has no newuidmap, or no range of users of its own in /etc/subuid" in refused
    assert "usermod --add-subuids" in refused
    host.root(_RANGE)
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    assert host.inside("id -un; grep NoNewPrivs /proc/self/status") == "web\nNoNewPrivs:\t1"
    host.inside("echo precious >/data/memory")
    state = "/home/someone/.local/share/paddock/web/state/home"
    assert host.root(f"stat -c %U {state}/memory") == "someone"
    host.installs_something()
    same = host.id()
    host.agent["environment"] = {"COLOUR": "blue"}
    host.up()
    assert host.id() == same
    assert host.has_installed()
    host.agent["user"] = {"name": "web", "uid": 12345}
    assert "its account changed; the state of" in host.plan()
    host.up()
    assert host.inside("id -u; cat /data/memory; echo $COLOUR") == "12345\nprecious\nblue"
    assert "isolation.capabilities" in host.paddock("verify").stdout
    host.paddock("down")
    assert host.root("find /etc /opt /var/lib /usr/local -user someone ! -path '*/systemd/linger*'") == ""
    assert host.by_engine("ps --all --quiet") == ""


@slow_proof
def test_an_agent_runs_in_rootless_podman(rootless: Host, roots: dict[str, Path], official: Path) -> None:
    host = rootless
    host.becomes("hermes", runtime="podman", container={"base": "debian:12", "archive": str(roots["base"])})
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    host.reboot()
    wait_for(lambda: json.loads(host.paddock("status", "--json").stdout)[0]["health"] == "ok")
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    assert "nothing to do" in host.paddock("up").stdout
    host.agent["container"] = {"image": NAME, "archive": str(official)}
    host.up()
    host.paddock("restart", "hermes")
    assert "✗" not in host.paddock("verify").stdout
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")
    # After a switch to the systemd of the account, the memory is the same.
    host.agent["runtime"] = "systemd"
    del host.agent["container"]
    host.up()
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")


@slow_proof
def test_unused_images_are_removed(web: Host, roots: dict[str, Path], tmp_path: Path) -> None:
    web.root("docker tag $(docker images --quiet localhost/paddock/archive) of-people:1")
    first = web.images()
    saved = saved_image(tmp_path / "saved.tar", "came-with:it", roots["bare"])
    web.agent["container"] = {**web.agent["container"], "archive": str(saved)}
    web.up()
    # The previous image stays as long as the previous bundle. Names from the archive are removed.
    assert set(first) < set(web.images())
    assert "came-with:it" not in web.images()
    web.agent["environment"] = {"COLOUR": "green"}
    web.up()
    second = web.images()
    assert "of-people:1" in second
    assert set(first) & set(second) == {"of-people:1"}
    web.paddock("down")
    assert web.images() == ["of-people:1"]
    web.root("docker image rm of-people:1")


# A program of the agent that its image would find before the system's, and notes who runs it.
_PLANTED = """
mkdir -p /opt/data/.local/bin
for name in chown chmod find rm usermod; do
    printf '#!/bin/sh\\nid -u >>/tmp/ran\\nexec /usr/bin/%s "$@"\\n' "$name" >"/opt/data/.local/bin/$name"
    chmod 755 "/opt/data/.local/bin/$name"
done
"""
_UNIT = "paddock-home_hermes.container"


def starts_as_the_official_image(host: Host) -> None:
    """Check how the image runs: its supervisor, one messaging process, the account, and what stays locked."""
    assert host.inside_as_root("cat /proc/1/comm; ls -d /run/s6/basedir").split() == ["s6-svscan", "/run/s6/basedir"]
    assert host.inside_as_root("s6-svstat -o up /run/service/gateway-default") == "false"
    running = host.inside_as_root("ps -eo uid,args").splitlines()
    gateways = [line.split()[0] for line in running if "gateway run --no-supervise" in line and "hermes" in line]
    assert {uid for uid in gateways if uid != "0"} == {str(host.agent["user"]["uid"])}, running
    assert sum("bin/hermes gateway run" in line for line in running) == 1, running
    owners = host.inside_as_root(
        "stat -c '%u %a' /opt/data /opt/data/.env /opt/data/config.yaml /opt/data/active_profile"
    )
    assert owners.splitlines() == ["0 1770", *["0 444"] * 3]
    assert "API_SERVER_KEY" not in host.inside("cat /opt/data/.env")
    assert host.inside("echo x 2>/dev/null >/opt/data/.env || echo refused") == "refused"


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_image_may_contain_the_code_of_the_agent(host: Host, official: Path, engine: str) -> None:
    account = {"name": "aide", "uid": 12345, "gid": 12346}
    host.root("rm -rf /var/lib/paddock/hermes /var/lib/paddock/.agents/home_hermes")  # of another account
    host.becomes("hermes", runtime=engine, user=account, version=VERSION, dashboard={"port": 9200})
    host.agent["container"] = {"image": NAME, "archive": str(official), "install": True}
    host.agent["cli_on_path"] = True
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert host.inside("id -u; id -g") == "12345\n12346"
    assert host.root("hermes config path </dev/null") == "/opt/data/config.yaml"
    starts_as_the_official_image(host)

    # The dashboard has the address and the port of the file, and the version is compared with the image's.
    assert host.root("ss -tlnH 'sport = :9200'").split()[3] == "127.0.0.1:9200"
    proofs = host.paddock("verify").stdout
    assert "✓ dashboard " in proofs
    assert ["✓", "version", VERSION] in [line.split()[:3] for line in proofs.splitlines()]
    host.agent["version"] = "0.18.2"
    wrong = host.paddock("verify", fails=True).stdout
    assert f"the image has {VERSION}, and the file says 0.18.2" in wrong
    del host.agent["version"]

    # What the agent writes with its own tool, beside the image's own folder.
    host.paddock("ask", "hermes", "Write /srv/agent/workspace/note: by the tool")
    assert host.inside("cat /srv/agent/workspace/note") == "by the tool"

    # A second start: the state says that a messaging process ran, and the agent has planted programs.
    host.inside(_PLANTED)
    host.root(f"systemctl restart {_UNIT}")
    wait_for(lambda: json.loads(host.paddock("status", "--json").stdout)[0]["health"] == "ok", seconds=60)
    starts_as_the_official_image(host)
    assert "0" not in host.inside_as_root("cat /tmp/ran 2>/dev/null; true").split(), "nothing of the agent runs as root"
    assert "✗" not in host.paddock("verify").stdout

    # What people ask of the engine.
    assert host.by_engine("ps --format '{{.Names}} {{.Status}}'").startswith("paddock-home_hermes Up ")
    assert "Setup complete" in host.by_engine("logs --tail 1000 paddock-home_hermes 2>&1")
    assert host.by_engine("exec paddock-home_hermes hermes --version").startswith("Hermes Agent")

    first = host.id()
    host.agent["environment"] = {"COLOUR": "red"}
    host.up()
    assert host.id() == first
    assert host.inside("echo $COLOUR") == "red"
    host.root(f"systemctl stop {_UNIT}")
    ended = host.root(f"systemctl show --property Result,ActiveState {_UNIT}").split()
    assert sorted(ended) == ["ActiveState=inactive", "Result=success"]
    host.paddock("up", "--recreate")
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")
    host.paddock("forget", "hermes", "--name", "hermes")


# Asks Docker for its version, without its client.
_ASK_DOCKER = """
import socket
with socket.socket(socket.AF_UNIX) as docker:
    docker.connect("/var/run/docker.sock")
    docker.sendall(b"GET /version HTTP/1.0\\r\\n\\r\\n")
    print(docker.recv(15).decode())
"""


@slow_proof
def test_the_agent_can_use_the_socket_of_docker_if_the_file_gives_it(web: Host) -> None:
    ask = shlex.join(["python3", "-c", _ASK_DOCKER])
    web.agent["container"] |= {"volumes": ["/var/run/docker.sock:/var/run/docker.sock"]}
    web.up()
    assert web.inside(ask) == "HTTP/1.0 200 OK"
    assert "with it, it can become root on the machine" in web.paddock("verify").stdout
    group = web.root("stat -c %g /var/run/docker.sock")
    web.root("chgrp root /var/run/docker.sock && systemctl restart paddock-home_web.container")
    wait_for(web.runs)
    try:
        assert "the agent cannot use /var/run/docker.sock" in web.paddock("verify", fails=True).stdout
    finally:
        web.root(f"chgrp {group} /var/run/docker.sock")
    web.agent["container"].pop("volumes")
    web.up()
    assert "paddock-" not in web.inside("cat /etc/group")


@slow_proof
@pytest.mark.parametrize("step", ["image.load", "code.install", "container.create", "agent.configure"])
def test_up_resumes_after_a_kill(host: Host, roots: dict[str, Path], step: str) -> None:
    host.becomes("hermes", runtime="docker", container={"base": "debian:12", "archive": str(roots["bare"])})
    host.root("docker image rm localhost/paddock/archive 2>/dev/null; docker image prune --all --force")
    kill_at_step(host.node, step, "up", "-f", host.write())
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    host.paddock("down")


@slow_proof
def test_up_resumes_after_a_kill_while_recreating_the_container(web: Host) -> None:
    web.agent["container"] |= {"shm_size": "64M"}
    kill_at_step(web.node, "container.recreate", "up", "-f", web.write())
    web.up()
    assert "nothing to do" in web.paddock("up").stdout
    assert web.root("docker ps --all --format '{{.Names}}'") == "paddock-home_web"


@slow_proof
def test_the_container_stops_with_its_lease(web: Host) -> None:
    # When the docker client of the unit is killed, ExecStopPost of the unit stops the container.
    web.root("kill -9 $(systemctl show --property MainPID --value paddock-home_web.container)")
    wait_for(web.runs)
    web.root("systemctl kill --signal KILL paddock-home_web.lease")
    wait_for(web.runs)
    web.root("systemctl stop paddock-home_web.lease")
    assert web.root("docker inspect -f '{{.State.Running}}' paddock-home_web") == "false"
    web.up()


@slow_proof
def test_a_switch_of_runtime_leaves_one_running_agent(web: Host) -> None:
    base = web.agent["container"]
    web.becomes("web", runtime="docker", container=base, command=["python3", "-c", _STUBBORN])
    web.up()
    web.installs_something()
    web.inside("echo precious >/data/memory")
    first = web.id()

    # A runtime that fails to start keeps the old container, which is removed only after the new agent answers.
    web.becomes("web", runtime="systemd", command=["/nowhere/python3"])
    assert "remove the container of web from docker" in (planned := web.plan())
    assert "lost with the container: tiny-tool" in planned
    web.paddock("up", "--set", "agents.web.verify.timeout=3s", fails=True)
    assert web.root("docker inspect -f '{{.State.Running}}' paddock-home_web") == "false"
    web.becomes("web", runtime="docker", container=base, command=["python3", "-c", _STUBBORN])
    web.up()
    assert web.id() == first
    assert web.has_installed()

    web.becomes("web", runtime="systemd")
    web.up()
    assert web.inside("cat memory") == "precious"
    assert web.root("docker ps --all --quiet") == ""
    assert "nothing to do" in web.paddock("up").stdout

    # From one engine to another, and `down` with a file that names yet another runtime.
    web.becomes("web", runtime="podman", container=base, command=["python3", "-c", _STUBBORN])
    web.up()
    web.becomes("web", runtime="docker", container=base)
    web.up()
    assert web.inside("cat /data/memory") == "precious"
    assert web.root("podman ps --all --quiet; podman images --quiet localhost/paddock/archive") == ""
    web.becomes("web", runtime="podman", container=base)
    web.paddock("down")
    assert web.root("docker ps --all --quiet") == ""


@slow_proof
def test_the_engine_reports_the_health_of_the_container(web: Host) -> None:
    healthy = "inspect -f '{{.State.Health.Status}}' paddock-home_web"
    wait_for(lambda: web.by_engine(healthy) == "healthy", seconds=60)
    web.agent["health"] = {"http": "http://127.0.0.1:8123/nowhere", "status": 404}
    first = web.id()
    web.up()
    assert web.id() == first
    check = "exec paddock-home_web /bin/sh /etc/paddock/home_web/current/health"
    web.by_engine(check)
    web.root("kill -STOP $(pgrep -f '[h]ttp.server 8123')")
    try:
        assert web.by_engine(f"{check} 2>&1 || echo unwell").endswith("unwell")
    finally:
        web.root("kill -CONT $(pgrep -f '[h]ttp.server 8123')")


@slow_proof
def test_sudo_works_only_if_the_file_allows_it(web: Host) -> None:
    web.agent |= {"container": {**web.agent["container"], "sudo": True}}
    web.fails_with("has no sudo: add sudo to packages:")
    web.agent["packages"] = ["sudo"]
    first = web.id()
    web.up()
    assert web.inside("sudo -n id -u") == "0"
    web.agent["container"] = {**web.agent["container"], "sudo": False}
    web.up()
    assert web.inside("sudo -n id -u 2>/dev/null || echo refused") == "refused"
    assert web.id() == first


@slow_proof
def test_failures_are_explained_and_keep_the_container(web: Host, roots: dict[str, Path], tmp_path: Path) -> None:
    good = web.agent["container"]
    web.installs_something()
    web.inside("echo precious >/data/memory")
    first = web.id()
    web.agent["mounts"] = [{"host": "/srv/nowhere", "path": "/library"}]
    web.fails_with("there is no directory /srv/nowhere on box")
    del web.agent["mounts"]
    web.agent["container"] = good | {"options": ["--no-such-option"]}
    web.fails_with("unknown flag: --no-such-option")
    web.agent["container"] = {"base": "debian:12"}
    web.fails_with("pulling debian:12 on box failed")

    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(roots["base"].read_bytes()[:100_000])
    taken = root_with_user(tmp_path / "taken.tar.gz", "ubuntu:x:12000:12000::/home/ubuntu:/bin/bash\n")
    for archive, sentence in (
        (tmp_path / "none.tar", f"cannot read {tmp_path}/none.tar: No such file or directory"),
        (cut, "cut.tar.gz is not a complete tar archive"),
        (image_without_its_layer(tmp_path / "hollow.tar"), "hollow.tar is not a complete image: it has no layer.tar"),
        (root_with_shell(tmp_path / "silent.tar", None), "no program runs in the image"),
        (root_with_shell(tmp_path / "foreign.tar", FOREIGN_PROGRAM), "exec format error"),
        (taken, "the image has a user ubuntu with uid 12000: give the agent another user:"),
    ):
        web.agent["container"] = good | {"archive": str(archive)}
        web.fails_with(sentence)
    assert len(web.images()) == 1, "images that cannot be used are removed"
    web.agent["container"] = good
    web.agent["user"] = {"name": "web", "uid": 12321}
    web.fails_with("on the machine of web, account web has uid 12000, and the file says 12321")
    web.root("useradd --uid 12050 somebody")
    web.agent["user"] = {"name": "other", "uid": 12050}
    web.fails_with("somebody has the uid 12050 on this machine: give the agent another user:")
    assert web.root("userdel somebody; getent passwd other || echo none") == "none"

    web.agent["user"] = _SERVICE["user"]
    assert "nothing to do" in web.paddock("up").stdout
    assert web.id() == first
    assert web.has_installed()
    assert web.inside("cat /data/memory") == "precious"

    dies = ["sh", "-c", "echo 'Error: no such thing' >&2; exit 3"]  # again and again
    web.agent |= {"command": dies, "verify": {"timeout": "5s"}}
    web.fails_with("web did not become healthy: Error: no such thing")
    web.agent |= {"command": _SERVICE["command"], "verify": {}}
    web.up()
    assert web.id() == first


@slow_proof
def test_an_engine_that_does_not_start_is_reported(web: Host) -> None:
    good, first = web.agent["container"], web.id()
    web.root("systemctl stop paddock-home_web.lease docker.socket docker")
    web.agent["container"] = good | {"install": False}
    assert "Cannot connect to the Docker daemon" in web.paddock("plan", fails=True).stdout
    web.agent["container"] = good
    web.up()
    assert web.id() == first

    web.root(
        """mkdir -p /etc/docker && echo '{"live-restore": true}' >/etc/docker/daemon.json; systemctl reload docker"""
    )
    assert "keeps containers running when its daemon stops" in web.paddock("plan", fails=True).stdout
    web.root("rm /etc/docker/daemon.json; systemctl reload docker")

    stop = "systemctl stop paddock-home_web.lease docker.socket docker"
    web.root(f"{stop}; mkdir -p /etc/docker && echo '{{ broken' >/etc/docker/daemon.json")
    web.fails_with("docker.service does not start on box:")
    web.fails_with("daemon.json")
    web.root("rm /etc/docker/daemon.json; systemctl reset-failed docker docker.socket")
    web.up()
    assert web.id() == first


@slow_proof
def test_a_taken_port_is_reported_with_the_process_that_holds_it(web: Host, roots: dict[str, Path]) -> None:
    first = web.id()
    squat = "systemd-run --quiet --unit squatter python3 -m http.server --bind 127.0.0.1"
    web.root(f"systemctl stop paddock-home_web.container && {squat} 8123 && sleep 1")
    web.fails_with("port 8123 is held by python3 (process ")  # that process answers the health check
    web.root("systemctl stop squatter")
    web.up()
    assert web.id() == first
    web.paddock("down")

    web.becomes("hermes", runtime="docker", container={"base": "debian:12", "archive": str(roots["base"])})
    web.root(f"{squat} 8642 && sleep 1")
    web.fails_with("port 8642 is held by python3 (process ")
    ended = web.root("systemctl show -p ExecMainStatus,NRestarts,ActiveState paddock-home_hermes.container").split()
    assert sorted(ended) == ["ActiveState=failed", "ExecMainStatus=78", "NRestarts=0"], (
        "no restart, since a restart would not help"
    )
    web.root("systemctl stop squatter")
    first = web.id()
    web.up()
    assert web.id() == first
    web.paddock("down")


@slow_proof
def test_a_full_disk_is_reported_and_up_resumes_with_free_space(web: Host, roots: dict[str, Path]) -> None:
    web.paddock("down")
    web.becomes("hermes", runtime="docker")
    web.agent["container"] = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    web.root("docker image rm localhost/paddock/archive 2>/dev/null; docker image prune --all --force")
    with web.disk_with_only(60):
        web.fails_with(f"loading {roots['bare']} on box failed: no space is left there")
    web.up()
    first = web.id()
    web.paddock("ask", "hermes", f"Remember: {FACT}")
    web.root("rm -r /opt/paddock/.store/*")
    with web.disk_with_only(120):
        web.fails_with("installing the code on the image")
    assert web.root("ls -A /opt/paddock/.store") == "", "an incomplete code tree is removed"
    web.up()
    assert web.id() == first

    with web.disk_with_only(0):
        assert "no space left on device" in web.paddock("verify", "hermes", fails=True).stdout.lower()
        web.agent["environment"] = {"COLOUR": "green"}
        web.fails_with("configuring hermes on box failed: no space is left there")
        web.agent["container"] |= {"shm_size": "64M"}
        web.fails_with("no space is left there")
        web.root("systemctl restart paddock-home_hermes.container")
    web.agent["container"] |= {"shm_size": "1G"}
    web.up()
    assert web.id() == first
    assert FACT in web.paddock("ask", "hermes", QUESTION).stdout
    web.paddock("down")


_REGISTRY = """
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-registry >/dev/null
systemctl stop docker-registry
echo '{version: 0.1, storage: {filesystem: {rootdirectory: /srv/registry}}, http: {addr: "127.0.0.1:5000"}}' >/srv/open
systemd-run --quiet docker-registry serve /srv/open
mkdir -p /etc/containers/registries.conf.d
printf '[[registry]]\nlocation = "localhost:5000"\ninsecure = true\n' >/etc/containers/registries.conf.d/test.conf
"""


@slow_proof
def test_images_are_pulled_from_a_registry_by_tag_and_by_digest(web: Host) -> None:
    web.root(_REGISTRY)
    image = web.root("docker image ls --quiet localhost/paddock/archive | head -n 1")
    web.root(f"docker tag {image} localhost:5000/base:1 && docker push --quiet localhost:5000/base:1")
    _, _, digest = web.root("docker image inspect -f '{{index .RepoDigests 0}}' localhost:5000/base:1").partition("@")
    web.root("docker image rm localhost:5000/base:1")
    web.paddock("down")
    for engine in ("docker", "podman"):
        for base in ("localhost:5000/base:1", f"localhost:5000/base:1@{digest}"):
            web.becomes("web", runtime=engine, container={"base": base, "install": True})
            web.up()
            assert "nothing to do" in web.paddock("up").stdout
        web.agent["container"] = {"base": f"localhost:5000/base@sha256:{'0' * 64}"}
        web.fails_with("pulling localhost:5000/base@sha256:000")
        web.becomes("web", runtime=engine, container={"base": base, "install": True})
        assert "nothing to do" in web.paddock("up").stdout
        web.paddock("down")


def _pushes(web: Host, tag: str, mark: str) -> str:
    """Push an image with one more file to the registry, as someone else would, and return its digest."""
    web.root(
        f"echo {mark} >/tmp/mark && docker create --name marked source:1 true && docker cp /tmp/mark marked:/mark"
        f" && docker commit marked {tag} && docker rm marked && docker push --quiet {tag}"
    )
    _, _, digest = web.root(f"docker image inspect -f '{{{{index .RepoDigests 0}}}}' {tag}").partition("@")
    web.root(f"docker image rm {tag}")
    return digest


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_tag_that_names_a_newer_image_is_used_on_request_and_the_image_before_stays(web: Host, engine: str) -> None:
    web.root(_REGISTRY)
    tag = f"localhost:5000/{engine}:latest"
    web.root("docker tag $(docker image ls --quiet localhost/paddock/archive | head -n 1) source:1")
    first = _pushes(web, tag, "first")
    web.becomes("web", runtime=engine, container={"base": tag, "install": True})
    web.up()
    status = json.loads(web.paddock("status", "--json").stdout)[0]
    assert status["image"] == first
    assert datetime.fromisoformat(status["pulled"]) <= datetime.now(UTC)
    web.installs_something()
    web.inside("echo precious >/data/kept")
    container = web.id()

    second = _pushes(web, tag, "second")
    if engine == "docker":  # it has pushed the image, so it knows it under this name already
        web.root(f"docker tag $({_running_image(web)}) {tag}")
    assert "nothing to do" in web.paddock("up").stdout
    assert (web.id(), web.inside("cat /mark")) == (container, "first")

    # A person pulls it: the container stays, and the plan says that it is not the newest.
    web.root(f"{engine} pull --quiet {tag}")
    assert f"the container runs {first[:19]}, and {tag} is {second[:19]} now" in web.plan()
    assert "nothing to do" in web.paddock("up").stdout
    assert web.id() == container

    web.paddock("up", "--pull")
    assert web.inside("cat /mark /data/kept").split() == ["second", "precious"]
    assert not web.has_installed()
    assert json.loads(web.paddock("status", "--json").stdout)[0]["image"] == second
    container = web.id()
    said = web.paddock("up", "--pull")
    assert f"{tag} did not change, it is {second}" in said.stderr
    assert web.id() == container

    # The image before is kept by a name of its own, until a third one works.
    running = web.root(_running_image(web))
    before = next(name for name in _kept(web) if name.partition(":")[2][:16] not in running)
    web.agent["container"]["base"] = before
    web.up()
    assert web.inside("cat /mark /data/kept").split() == ["first", "precious"]
    web.agent["container"]["base"] = tag
    web.up()
    assert web.inside("cat /mark") == "second"
    _pushes(web, tag, "third")
    web.paddock("up", "--pull")
    assert web.inside("cat /mark /data/kept").split() == ["third", "precious"]
    assert len(_kept(web)) == 2
    assert before not in _kept(web)
    assert tag in web.images()
    web.paddock("down")
    assert _kept(web) == []
    assert tag in web.images()


def _kept(web: Host) -> list[str]:
    return [name for name in web.images() if name.startswith("localhost/paddock/kept:")]


def _running_image(web: Host) -> str:
    return f"{web.engine} container inspect --format '{{{{.Image}}}}' paddock-home_{web.name}"


@slow_proof
def test_docker_compose_accepts_the_written_compose_file(web: Host) -> None:
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-compose"
    web.root(f"{install} >/dev/null 2>&1")
    told = web.root("docker-compose --file /etc/paddock/home_web/current/docker-compose.yml config")
    assert "/etc/paddock/home_web:/etc/paddock/home_web:ro" in told


@slow_proof
def test_paddock_manages_the_container_from_its_own_machine(web: Host) -> None:
    """With `host: {}` Paddock does the same without ssh."""
    packages = Path(pydantic.__file__).parents[1]
    left_out = [f"--exclude=./{name}*" for name in ("mypy", "ruff", "uv", "hypothesis", "pip", "setuptools", "paddock")]
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "paddock.tar"
        pack = ["tar", "--create", "--file", str(archive), *left_out, "--directory", str(packages), "."]
        subprocess.run(pack, check=True)
        own = [
            "tar",
            "--append",
            "--file",
            str(archive),
            "--directory",
            str(Path(paddock.__file__).parents[1]),
            "paddock",
        ]
        subprocess.run(own, check=True)
        web.send(archive, "mkdir -p /root/here && tar -xC /root/here")
    web.agent["container"] = {"base": "debian:12", "archive": "/root/here/base.tar.gz"}
    web.send(Path(web.base), "cat >/root/here/base.tar.gz")
    text = json.dumps({"project": "home", "places": {"box": {"host": {}}}, "agents": {"web": web.agent}})
    first = web.id()
    web.root(f"printf %s {shlex.quote(text)} >/root/here/paddock.yaml")
    assert "nothing to do" in web.root("cd /root/here && PYTHONPATH=. python3 -m paddock up")
    change = "--set agents.web.environment.COLOUR=local"
    assert "up and working" in web.root(f"cd /root/here && PYTHONPATH=. python3 -m paddock up {change}")
    assert web.id() == first
    assert web.root("cd /root/here && PYTHONPATH=. python3 -m paddock exec web -- sh -c 'echo $COLOUR'") == "local"


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_base_without_python_gets_one_in_a_layer_of_its_own(host: Host, engine: str) -> None:
    base = {"base": "ubuntu:24.04", "archive": str(minimal_root()), "install": True}
    host.becomes("hermes", runtime=engine, container=base)
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert host.inside("command -v python3") == "/usr/bin/python3"
    assert host.plan() == "hermes: nothing to do\n", "the layer does not count as another image"
    names = [name for name in host.images() if name.startswith("localhost/paddock/")]
    given, made = sorted(names)
    assert (given.rpartition(":")[0], made.rpartition(":")[0]) == (
        "localhost/paddock/archive",
        "localhost/paddock/python",
    )
    assert host.by_engine(f"run --rm --entrypoint /bin/sh {given} -c 'command -v python3 || echo none'") == "none"
    assert host.by_engine("ps --all --format '{{.Names}}'") == "paddock-home_hermes"

    # A new container is made from the same image. What a killed run has left goes with the agent.
    first, image = host.id(), "container inspect --format '{{.Image}}' paddock-home_hermes"
    runs = host.by_engine(image)
    host.agent["container"]["shm_size"] = "512M"
    host.up()
    assert host.id() != first
    assert host.by_engine(image) == runs
    assert host.paddock("ask", "hermes", QUESTION).stdout.strip() == FACT
    left = f"create --name paddock-home_hermes.layer --label paddock.layer=home_hermes {given} /bin/sh"
    host.by_engine(left)
    host.paddock("down")
    assert not [name for name in host.images() if name.startswith("localhost/paddock/")]
    assert host.by_engine("ps --all --quiet") == ""


@slow_proof
def test_a_base_without_python_is_rejected(host: Host, tmp_path: Path) -> None:
    lacking = root_without_python(tmp_path / "lacking.tar.gz")
    host.becomes("hermes", runtime="docker", container={"base": "debian:12", "archive": str(lacking), "install": True})
    host.fails_with("has no Python 3.11 or 3.12 or 3.13")
