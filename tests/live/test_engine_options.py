"""Docker and Podman on a host over ssh: options of the container, and a switch of the runtime."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from pathlib import Path

import pydantic
import pytest

import paddock
from levels import slow_proof
from live.engine_host import Host, machine, web
from live.node import wait_for

__all__ = ["machine", "web"]
pytestmark = pytest.mark.live


# Takes some seconds to end, so that a successor that starts too early finds the port taken.
_SLOW_TO_END = """
import http.server, os, signal, threading
signal.signal(signal.SIGTERM, lambda *_: threading.Timer(5, os._exit, [0]).start())
http.server.test(http.server.SimpleHTTPRequestHandler, http.server.ThreadingHTTPServer, port=8123, bind="127.0.0.1")
"""


_SETUP = """
from setuptools import setup
open("tiny_pip.py", "w").write("def main(): print('installed')")
scripts = ["tiny-pip=tiny_pip:main"]
setup(name="tiny-pip", version="1", py_modules=["tiny_pip"], entry_points={"console_scripts": scripts})
"""
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
def test_a_switch_of_runtime_leaves_one_running_agent(web: Host) -> None:
    base = web.agent["container"]
    web.becomes("web", runtime="docker", container=base, command=["python3", "-c", _SLOW_TO_END])
    web.up()
    web.installs_something()
    web.inside("echo precious >/data/memory")
    first = web.id()

    # A runtime that fails to start gives way to the old container, which is removed only after the new agent answers.
    web.becomes("web", runtime="systemd", command=["/nowhere/python3"])
    assert "remove the container of web from docker" in (planned := web.plan())
    assert "lost with the container: tiny-tool" in planned
    web.paddock("up", "--set", "agents.web.verify.timeout=3s", fails=True)
    web.becomes("web", runtime="docker", container=base, command=["python3", "-c", _SLOW_TO_END])
    wait_for(web.runs)
    assert web.plan() == "web: nothing to do\n"
    assert web.id() == first
    assert web.has_installed()

    web.becomes("web", runtime="systemd")
    web.up()
    assert web.inside("cat memory") == "precious"
    assert web.root("docker ps --all --quiet") == ""
    assert "nothing to do" in web.paddock("up").stdout

    # From one engine to another, and `down` with a file that names yet another runtime.
    web.becomes("web", runtime="podman", container=base, command=["python3", "-c", _SLOW_TO_END])
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
    first = web.id()
    web.up()
    assert web.inside("sudo -n id -u") == "0"
    web.agent["container"] = {**web.agent["container"], "sudo": False}
    web.up()
    assert web.inside("sudo -n id -u 2>/dev/null || echo refused") == "refused"
    assert web.id() == first


@slow_proof
def test_the_agent_installs_packages_if_its_container_is_writable(web: Host) -> None:
    web.agent |= {"container": {**web.agent["container"], "writable": True}}
    first = web.id()
    web.up()
    assert web.id() == first
    web.inside("apt-get update -qq && apt-get install -y -qq --no-install-recommends jq >/dev/null 2>&1")
    assert web.inside("jq --version").startswith("jq-")
    web.agent["container"] = {**web.agent["container"], "writable": False}
    web.up()
    assert web.inside("jq --version").startswith("jq-"), "the container was kept"
    assert "are you root" in web.inside("apt-get install -y -qq bc 2>&1 || true")


@slow_proof
def test_pip_and_npm_install_into_the_state(web: Host) -> None:
    web.agent["packages"] = ["python3-pip"]
    assert "install python3-pip in the container of web" in web.plan()
    web.up()
    web.inside(f"mkdir -p ~/tiny && cd ~/tiny && printf %s {shlex.quote(_SETUP)} >setup.py ")
    web.inside("python3 -m pip install --no-index --no-build-isolation -q ~/tiny && tiny-pip")
    web.root("systemctl restart paddock-home_web.container")
    wait_for(web.runs)
    assert web.inside("tiny-pip") == "installed"
    assert web.inside("command -v tiny-pip") == "/data/.local/bin/tiny-pip"
    assert web.inside("echo $NPM_CONFIG_PREFIX") == "/data/.local"
    web.paddock("up", "--recreate")
    assert web.inside("tiny-pip") == "installed", "another container has it too"


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
