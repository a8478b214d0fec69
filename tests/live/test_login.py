"""An agent plants a key in its home: a stranger on the network must not log in to its account, which nothing confines.

Accounts of earlier versions let them in. Each test opens the account again, and shows that the attack works then.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from live.engine_host import Host, host, machine, web
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from live.test_lease import by_ssh
from paddock.demo import FACT, QUESTION

__all__ = ["host", "machine", "web"]
pytestmark = pytest.mark.live

VMID = 260
# The program of the agent: it lets the stranger in, logs in to itself, and asks for a systemd of its own.
ATTACK = """
umask 077
mkdir -p ~/.ssh
[ -e ~/.ssh/own ] || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/own
{ echo "$STRANGER"; cat ~/.ssh/own.pub; } >~/.ssh/authorized_keys
login="ssh -F /dev/null -i $HOME/.ssh/own -o BatchMode=yes -o StrictHostKeyChecking=no -o ConnectTimeout=5"
loginctl enable-linger >/dev/null 2>&1 &
while sleep 1; do
    $login -o UserKnownHostsFile=/dev/null web@127.0.0.1 'echo came in; grep NoNewPrivs /proc/self/status' >~/new 2>&1
    mv ~/new ~/said
done &
exec python3 -m http.server 8123 --bind 127.0.0.1
"""
# With it logind knows of logins, and starts a systemd for an account.
PACKAGES = "apt-get update -qq && apt-get install -y -qq --no-install-recommends libpam-systemd >/dev/null 2>&1"
# As an earlier version left it.
OPEN = "usermod --expiredate '' --shell /bin/bash {0}"
SAID = "cat /var/lib/paddock/web/home/said"
PID = "systemctl show --property MainPID --value paddock-home_web.main"


@dataclass(frozen=True)
class Stranger:
    """Somebody on the network of the machine who has a key that the agent knows."""

    key: Path

    @property
    def public(self) -> str:
        return " ".join(self.key.with_suffix(".pub").read_text().split()[:2])

    def command(self, address: str, account: str, command: str) -> Sequence[str]:
        options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes")
        words = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "/dev/null", "-i", str(self.key), *words, f"{account}@{address}", command]

    def log_in(self, address: str, account: str, command: str = "grep NoNewPrivs /proc/self/status") -> str:
        """Return what the command printed, and what ssh said."""
        done = subprocess.run(
            self.command(address, account, command), capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout + done.stderr

    def gets_in(self, address: str, account: str) -> bool:
        said = self.log_in(address, account)
        assert ("NoNewPrivs:\t0" in said) is not ("account has expired" in said), said
        return "NoNewPrivs:\t0" in said


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "stranger")], check=True)
    return Stranger(tmp_path / "stranger")


@pytest.fixture(scope="module")
def shared(node: Node) -> Iterator[str]:
    """A host with an ssh server, which others use too."""
    api = api_client(node)
    address = container(node, api, VMID)
    node.shell(address, PACKAGES)
    yield address
    destroy(api, VMID)


def attacker(node: Node, address: str, stranger: Stranger, egress: Any) -> str:
    """Write a file with an attacker as its agent, and return its path."""
    tree = by_ssh(node, address)
    tree["agents"] = {
        "web": {
            "kind": "service",
            "place": "box",
            "command": ["sh", "-c", ATTACK],
            "health": {"port": 8123},
            "environment": {"STRANGER": stranger.public},
            "user": {"name": "web", "uid": 12000},
            "network": {"egress": egress},
        }
    }
    return str(node.write("attacker.yaml", tree))


@pytest.mark.parametrize("egress", [[], "open"], ids=["egress closed", "egress open"])
def test_neither_a_stranger_nor_the_agent_itself_logs_in(
    node: Node, shared: str, stranger: Stranger, egress: Any
) -> None:
    path = attacker(node, shared, stranger, egress)
    node.paddock("up", "-f", path)
    try:
        wait_for(lambda: node.shell(shared, f"{SAID} || true") != "")
        assert "came in" not in node.shell(shared, SAID)
        assert not stranger.gets_in(shared, "web")
        verified = " ".join(node.paddock("verify", "-f", path).stdout.split())
        assert "✓ isolation.login the account web has expired and has no shell; sshd refused a key" in verified

        # The account of an earlier version.
        node.shell(shared, OPEN.format("web"))
        assert stranger.gets_in(shared, "web"), "the test would prove nothing"
        if egress == "open":
            wait_for(lambda: "came in\nNoNewPrivs:\t0" in node.shell(shared, SAID))
        node.shell(shared, "mkdir -p /var/lib/systemd/linger && touch /var/lib/systemd/linger/web")
        node.shell(shared, "systemctl start user@12000.service")
        inside = subprocess.Popen(stranger.command(shared, "web", "echo in; exec sleep 600"), stdout=subprocess.PIPE)
        assert inside.stdout
        assert inside.stdout.readline() == b"in\n"
        failed = node.paddock("verify", "-f", path, fails=True).stdout
        assert "✗ isolation.login" in failed
        assert "sshd let web in with a key" in failed

        before = node.shell(shared, PID)
        planned = node.paddock("plan", "-f", path).stdout
        assert "+ close the account of web to logins" in planned
        assert "configure" not in planned
        node.paddock("up", "-f", path)
        assert node.shell(shared, PID) == before, "closing the account needs no restart"
        assert not stranger.gets_in(shared, "web")
        assert inside.wait(timeout=15) != 0, "the login from before has ended"
        manager = "ls /var/lib/systemd/linger; systemctl is-active user@12000 || true"
        wait_for(lambda: node.shell(shared, manager) in ("inactive\n", "failed\n"))
        assert node.shell(shared, "systemctl start user@12000.service && echo started || true") == ""
        assert node.paddock("plan", "-f", path).stdout == "web: nothing to do\n"
    finally:
        node.paddock("down", "-f", path)
    assert not stranger.gets_in(shared, "web"), "the account and its home stay on the machine"


def test_root_and_verbs_still_enter_the_account(node: Node, shared: str, stranger: Stranger) -> None:
    path = attacker(node, shared, stranger, [])
    node.paddock("up", "-f", path)
    try:
        assert node.paddock("exec", "web", "-f", path, "--", "bash", "-c", "id -un; pwd").stdout.split() == [
            "web",
            "/var/lib/paddock/web/home",
        ]
        assert node.shell(shared, "runuser -u web -- id -un") == "web\n"
    finally:
        node.paddock("down", "-f", path)


def test_hermes_plants_a_key_with_its_terminal_tool_and_nobody_gets_in(agent: Node, stranger: Stranger) -> None:
    # Hermes itself asks a person before a command that names ~/.ssh, which an attacker does not write out.
    write = f"d=.s && mkdir -p ${{d}}sh && echo {stranger.public} >${{d}}sh/authorized_keys"
    plant = f"cd $HOME && umask 077 && {write} && echo planted"
    agent.ask(f"Remember: {FACT}")
    assert "planted" in agent.ask(f"Run: {plant}")
    try:
        address = agent.status()["address"]
        assert stranger.public in agent.machine("cat ~hermes/.ssh/authorized_keys")
        assert not stranger.gets_in(address, "hermes")
        assert agent.paddock("exec", "hermes", "--", "id", "-un").stdout == "hermes\n"
        assert agent.machine("find /etc/systemd/system -name paddock-limits.conf") == "", "the machine has limits"
        agent.machine(OPEN.format("hermes"))
        assert stranger.gets_in(address, "hermes"), "the test would prove nothing"
        assert "close the account of hermes to logins" in agent.paddock("plan").stdout
        agent.paddock("up")
        assert not stranger.gets_in(address, "hermes")
        assert agent.ask(QUESTION) == FACT
    finally:
        agent.paddock("exec", "hermes", "--", "rm", "-rf", "/var/lib/paddock/hermes/home/.ssh")


def test_an_agent_in_docker_plants_a_key_and_nobody_gets_in(web: Host, stranger: Stranger) -> None:
    plant = f"umask 077 && mkdir -p /data/.ssh && echo {stranger.public} >/data/.ssh/authorized_keys"
    web.inside(plant)
    assert not stranger.gets_in(web.address, "web")
    made = web.id()
    web.root(OPEN.format("web"))
    assert stranger.gets_in(web.address, "web"), "the test would prove nothing"
    assert "close the account of web to logins" in web.plan()
    web.up()
    assert not stranger.gets_in(web.address, "web")
    assert web.id() == made
    assert web.runs()
    assert web.plan() == "web: nothing to do\n"
    web.inside("rm -r /data/.ssh")
