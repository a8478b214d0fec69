"""Agents under systemd on hosts over ssh: accounts, directories, two agents on one host, and no root."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from levels import slow_proof
from live.manual import container, destroy
from live.node import Node
from live.test_lease import api, by_ssh
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.api.client import Client

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
# Forbids namespaces to one account, as some kernels and containers do.
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


def test_an_agent_runs_without_root_in_the_systemd_of_an_account(node: Node, host: str) -> None:
    node.shell(host, ACCOUNT)
    path = str(node.write("account.yaml", as_account(node, host)))
    node.paddock("up", "-f", path)
    assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\n"
    score = node.shell(
        host, f"{SOMEONE} systemd-analyze --user security --no-pager paddock-home_hermes.gateway"
    ).split()
    assert float(score[-3]) <= 2.5, score[-8:]
    assert node.shell(host, "find /etc /opt /var/lib /usr/local -user someone ! -path '*/systemd/linger*'") == ""
    node.shell(host, NO_NAMESPACES)
    told = node.paddock("up", "-f", path).stderr
    assert "does not support PrivateUsers=yes; Paddock drops that line" in told
    assert "does not support ProtectSystem=strict; Paddock drops that line" in told
    assert "SystemCallFilter" not in told
    assert "dropped: PrivateUsers " in node.paddock("plan", "-f", path).stdout
    assert node.paddock("ask", "hermes", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
    node.paddock("down", "-f", path)
    assert node.shell(host, "find /home/someone/.config -name '*paddock-*'") == ""


def layout(node: Node, where: str, top: str) -> dict[str, str]:
    """Return mode and owner of all files below a directory, by relative path."""
    found = node.shell(where, f"cd {top} && find . -printf '%P\\t%m %u:%g\\n'")
    return dict(line.split("\t") for line in found.splitlines())


def test_two_agents_share_a_host_and_its_code(node: Node, host: str) -> None:
    tree = by_ssh(node, host)
    first = tree["agents"]["hermes"]
    first |= {
        "state": {"path": "/var/lib/hermes"},
        "user": {"name": "hermes", "uid": 10000, "group": "agents", "gid": 10100},
        "cli_on_path": True,
        "packages": ["bc"],
        "documents": {"SOUL.md": "Be brief."},
    }
    second = copy.deepcopy(first) | {"user": {"name": "visitor", "create": False}, "cli_on_path": False}
    second |= {"state": {}, "packages": [], "connectors": {"api_server": {"port": 8700}}}
    second["expose"] = {"api_server": {"address": host}}
    tree["agents"]["other"] = second
    path = str(node.write("two.yaml", tree))
    refused = node.paddock("up", "-f", path, "--only", "other", fails=True).stderr
    assert "there is no account visitor on the machine, and the file says user: {create: false}" in refused
    node.shell(host, "useradd --uid 1234 --user-group --shell /bin/sh visitor")
    node.paddock("up", "-f", path)
    for agent in ("hermes", "other"):
        assert node.paddock("ask", agent, "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."

    # The directory layout of the seed's native mode. Managed files belong to root in a sticky directory.
    found = layout(node, host, "/var/lib/hermes")
    assert found[""] == "750 root:agents", "only root and the agent may read, only root may write"
    assert found[".paddock"] == "700 root:root"
    for folder in ("cron", "logs", "memories", "sessions"):
        assert found[f"home/.hermes/{folder}"] == "700 hermes:agents"
    assert found["home/.hermes/state.db"] == "600 hermes:agents"
    assert found["home/.hermes/config.yaml"] == found["home/.hermes/.managed"] == "444 root:root"
    assert found["home/.hermes/SOUL.md"] == "444 root:root"
    assert node.shell(host, "id hermes").strip() == "uid=10000(hermes) gid=10100(agents) groups=10100(agents)"
    assert layout(node, host, "/var/lib/paddock/other")["home/.hermes/memories"] == "700 visitor:visitor"

    # The agents cannot read each other's state. Only the configured addresses listen.
    for mine, others in (("hermes", "/var/lib/paddock/other"), ("visitor", "/var/lib/hermes")):
        assert "Permission denied" in node.shell(host, f"runuser -u {mine} -- ls {others} 2>&1 || true")
    listening = {each for each in node.shell(host, "ss -Hltn | awk '{print $4}'").split() if ":22" not in each}
    assert listening == {"127.0.0.1:8642", f"{host}:8700"}

    # `hermes` on the machine: root uses the agent's state and secrets, other accounts their own. The agent's account
    # cannot read the secrets.
    assert "/var/lib/hermes/home/.hermes" in node.shell(host, "hermes config path </dev/null")
    assert node.shell(host, "hermes -z 'Say hello.' </dev/null").strip() == "ok: Say hello."
    told = node.shell(host, "runuser -u hermes -- hermes config path 2>&1 </dev/null || true").strip()
    assert told == "hermes of hermes needs its secrets, which only root can read: sudo hermes"
    assert "/nonexistent/.hermes" in node.shell(host, "cd / && runuser -u nobody -- hermes config path </dev/null")
    assert node.paddock(
        "exec", "hermes", "-f", path, "--", "sh", "-c", "command -v bc; command -v rg"
    ).stdout.split() == [
        "/usr/bin/bc",
        "/usr/bin/rg",
    ]

    # The agents share code: the last `down` removes it. The memory stays.
    node.paddock("ask", "hermes", f"Remember: {FACT}", "-f", path)
    tree_id = node.shell(host, "readlink /opt/paddock/home_hermes/current").strip()
    node.paddock("down", "-f", path, "--only", "hermes")
    left = node.shell(host, "ls /usr/local/bin /opt/paddock/.store /opt/paddock /etc/paddock /etc/systemd/system")
    assert tree_id in left
    assert "hermes" not in left
    node.paddock("up", "-f", path, "--only", "hermes")
    assert node.paddock("plan", "-f", path).stdout == "hermes: nothing to do\nother: nothing to do\n"
    assert node.paddock("ask", "hermes", QUESTION, "-f", path).stdout.strip() == FACT
    node.paddock("down", "-f", path)
    assert node.shell(host, "ls -A /opt/paddock /etc/paddock").split() == ["/etc/paddock:", "/opt/paddock:"]
    assert FACT in node.shell(host, "cat /var/lib/hermes/home/.hermes/memories/MEMORY.md")


@slow_proof
def test_the_browser_renders_a_page_under_the_hardened_unit(node: Node, host: str) -> None:
    page = "<h1>?</h1><script>document.querySelector('h1').textContent = 'six times seven is ' + 6 * 7</script>"
    node.shell(
        host,
        f"mkdir /srv/page && echo {page!r} >/srv/page/index.html && "
        "systemd-run --quiet --working-directory /srv/page python3 -m http.server --bind 127.0.0.1 8099",
    )
    tree = by_ssh(node, host)
    tree["agents"]["hermes"]["browser"] = True
    path = str(node.write("browser.yaml", tree))
    node.paddock("up", "-f", path)
    said = node.paddock("ask", "hermes", "Read http://127.0.0.1:8099/", "-f", path).stdout
    assert "six times seven is 42" in said
    last = node.shell(host, "systemd-analyze security --no-pager paddock-home_hermes.gateway").strip().splitlines()[-1]
    assert float(last.rpartition(": ")[2].split()[0]) <= 2.5
