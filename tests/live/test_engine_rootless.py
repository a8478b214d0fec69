"""Podman without root, in an account of a host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from levels import slow_proof
from live.engine_host import Host, host, machine
from live.node import wait_for
from live.official_image import NAME
from live.test_native import ACCOUNT
from paddock.demo import FACT, QUESTION

__all__ = ["host", "machine"]
pytestmark = pytest.mark.live


# What root prepares once: the account, the engine with its data on a volume, and a range of subordinate uids.
_ACCOUNT = f"""
{ACCOUNT}
install -d /home/someone/.config/containers
printf '[storage]\\ndriver = "overlay"\\n' >/home/someone/.config/containers/storage.conf
chown --recursive someone: /home/someone/.config
chown someone: /home/someone /home/someone/.local /home/someone/.local/share /home/someone/.local/share/containers
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
    assert host.root("find /etc /opt /var/lib /usr/local -xdev -user someone ! -path '*/systemd/linger*'") == ""
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
