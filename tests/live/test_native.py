"""Hosts that are there already, over ssh: accounts, folders, several agents, and no root at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from live.by_hand import container, destroy
from live.stage import Node
from live.test_lease import api, by_ssh
from paddock.places.proxmox.client import Client

__all__ = ["api"]
pytestmark = pytest.mark.live

ACCOUNT = """
apt-get update -qq && apt-get install -y -qq --no-install-recommends libpam-systemd >/dev/null 2>&1
useradd --create-home --shell /bin/bash someone
install -d -o someone -g someone -m 700 ~someone/.ssh
install -o someone -g someone -m 600 ~/.ssh/authorized_keys ~someone/.ssh/
loginctl enable-linger someone
"""
SOMEONE = "setpriv --reuid someone --regid someone --init-groups env HOME=/home/someone XDG_RUNTIME_DIR=/run/user/1000"
# What a kernel or a container may refuse, here refused to one account.
NO_NAMESPACES = """
mkdir -p /etc/systemd/system/user@.service.d
printf '[Service]\\nRestrictNamespaces=yes\\n' >/etc/systemd/system/user@.service.d/test.conf
systemctl daemon-reload && systemctl restart "user@$(id -u someone)"
"""


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[str]:
    yield container(node, api, 210)
    destroy(api, 210)


def as_account(node: Node, where: str) -> dict[str, Any]:
    tree = by_ssh(node, where)
    tree["places"]["box"]["host"] |= {"user": "someone", "scope": "user"}
    return tree


def test_without_root_in_an_accounts_own_systemd(node: Node, host: str) -> None:
    node.shell(host, ACCOUNT)
    path = str(node.write("account.yaml", as_account(node, host)))
    node.paddock("up", "-f", path)
    assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n"
    score = node.shell(host, f"{SOMEONE} systemd-analyze --user security --no-pager paddock-hermes-gateway").split()
    assert float(score[-3]) <= 2.5, score[-8:]
    assert node.shell(host, "find /etc /opt /var/lib /usr/local -user someone ! -path '*/systemd/linger*'") == ""
    node.shell(host, NO_NAMESPACES)
    told = node.paddock("up", "-f", path).stderr
    assert "cannot give PrivateUsers=yes; it is dropped" in told
    assert "cannot give ProtectSystem=strict; it is dropped" in told
    assert "SystemCallFilter" not in told
    assert "dropped: PrivateUsers " in node.paddock("plan", "-f", path).stdout
    assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
    node.paddock("down", "-f", path)
    assert node.shell(host, "find /home/someone/.config -name '*paddock-*'") == ""
