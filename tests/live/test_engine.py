"""Docker and Podman on a host over ssh: what an agent finds in its container, and which changes keep it."""

from __future__ import annotations

import errno
import json
import re
import shlex
import socket
from pathlib import Path

import pytest

from levels import slow_proof
from live.engine_host import SERVICE, Host, host, machine, web
from live.kernel_paths import ALLOWED, ATTACK, is_limited, is_open, led_elsewhere
from live.node import wait_for
from paddock.demo import FACT, QUESTION
from paddock.onboard.hermes.launch import REFUSED

__all__ = ["host", "machine", "web"]
pytestmark = pytest.mark.live


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

        web.agent["command"] = ["python3", "-c", ATTACK, "/data/found", "8123"]
        with led_elsewhere(web.root):
            for egress, held in (([ALLOWED], is_limited), ("open", is_open)):
                web.agent["network"] = {"egress": egress}
                web.up()
                assert web.id() == before
                assert held(json.loads(web.inside("cat /data/found"))), egress
                assert held(json.loads(web.inside(shlex.join(["python3", "-c", ATTACK])))), egress
                assert ("✓ egress.kernel" in web.paddock("verify").stdout) == (held == is_limited)

        del web.agent["network"]
        web.agent["command"] = SERVICE["command"]
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
