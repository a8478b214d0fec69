"""The memory of an agent survives its machine, and is the only source of the answer."""

from __future__ import annotations

import pytest

from levels import slow_proof
from live.node import Node, kill_at_step, wait_for
from paddock.core import converge
from paddock.core.open import deployments
from paddock.demo import FACT, QUESTION
from paddock.kinds import load
from paddock.places.proxmox.api.client import Client
from paddock.show.reporter import Reporter

pytestmark = pytest.mark.live

RUNNING = "systemctl show -p MainPID,NRestarts,ExecMainStartTimestamp 'paddock-home_hermes.*'"


def delete_the_memories(agent: Node) -> None:
    """Delete the memories of the agent and nothing else."""
    agent.machine(
        "systemctl stop paddock-home_hermes.gateway && rm -rf /var/lib/paddock/hermes/home/.hermes/memories/* && "
        "systemctl start paddock-home_hermes.gateway"
    )
    wait_for(lambda: agent.status()["health"] == "ok")


def test_the_memory_survives_its_machine(agent: Node) -> None:
    delete_the_memories(agent)
    assert agent.ask(QUESTION) == "I do not know."
    assert FACT in agent.ask(f"Remember: {FACT}")
    agent.paddock("down")
    assert agent.status()["status"] == "absent"
    agent.paddock("up")
    assert agent.ask(QUESTION) == FACT


def test_a_second_up_writes_nothing_and_restarts_nothing(agent: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    before = agent.machine(RUNNING)
    writes: list[str] = []
    monkeypatch.setattr(Client, "send", lambda self, method, path, params=None: writes.append(f"{method} {path}"))
    for name, value in agent.stage.environment.items():
        monkeypatch.setenv(name, value)
    with deployments(load(agent.stage.folder / "paddock.yaml"), [], Reporter()) as found:
        assert converge.up(found[0]) == "hermes: nothing to do, and healthy"
    assert writes == []
    assert agent.machine(RUNNING) == before


def test_plan_after_up_is_empty(agent: Node) -> None:
    assert agent.paddock("plan", "--exit-code").stdout == "hermes: nothing to do\n"


def test_a_change_of_settings_restarts_the_agent_and_keeps_the_lease(agent: Node) -> None:
    agent.ask(f"Remember: {FACT}")
    before = dict.fromkeys(("gateway", "lease"), "")
    for unit in before:
        before[unit] = agent.machine(f"systemctl show -p MainPID --value paddock-home_hermes.{unit}")
    tree = agent.file()
    tree["agents"]["hermes"]["environment"] = {"GREETING": 'say "100%" for $5 \\o/'}
    path = str(agent.write("changed.yaml", tree))
    assert "(its configuration changed" in agent.paddock("plan", "-f", path).stdout
    agent.paddock("up", "-f", path)
    pid = agent.machine("systemctl show -p MainPID --value paddock-home_hermes.gateway")
    assert pid != before["gateway"]
    assert agent.machine("systemctl show -p MainPID --value paddock-home_hermes.lease") == before["lease"]
    environment = agent.machine(f"tr '\\0' '\\n' < /proc/{pid.strip()}/environ")
    assert 'GREETING=say "100%" for $5 \\o/\n' in environment
    assert agent.ask(QUESTION) == FACT


def test_the_secret_is_only_in_the_secrets_file(agent: Node) -> None:
    key = agent.stage.environment["STANDIN_KEY"]
    found = agent.machine(f"grep -rlF {key} /etc /opt/paddock /var/lib/paddock /run /var/log 2>/dev/null || true")
    assert found.split() == ["/etc/paddock/home_hermes/secrets.env"]
    assert agent.machine("stat -c '%a %U' /etc/paddock/home_hermes/secrets.env").strip() == "400 root"
    for journal in agent.journals.glob("*"):
        assert key not in journal.read_text()
    assert key not in agent.machine("journalctl -q; systemctl show 'paddock-*'")


def test_the_agent_cannot_change_its_code_configuration_or_lease(agent: Node) -> None:
    tries = (
        "touch /opt/paddock/.store/x",
        "touch /etc/paddock/home_hermes/current/hermes/config.yaml",
        "rm /var/lib/paddock/hermes/.paddock/lease",
        "mv /var/lib/paddock/hermes/.paddock /var/lib/paddock/hermes/away",
        "cat /etc/paddock/home_hermes/secrets.env",
    )
    for attempt in tries:
        said = agent.machine(
            f"setpriv --reuid hermes --regid hermes --clear-groups {attempt} 2>&1 && echo DONE || true"
        )
        assert "Permission denied" in said or "Operation not permitted" in said, (attempt, said)


def test_only_ssh_listens_outside_loopback(agent: Node) -> None:
    listening = agent.machine("ss -Hltn | awk '{print $4}'").split()
    assert {each for each in listening if not each.startswith(("127.", "[::1]"))} <= {"0.0.0.0:22", "[::]:22", "*:22"}


def test_the_unit_is_hardened(agent: Node) -> None:
    last = (
        agent.machine("systemd-analyze security --no-pager paddock-home_hermes.gateway.service")
        .strip()
        .splitlines()[-1]
    )
    assert float(last.rpartition(": ")[2].split()[0]) <= 2.5


def test_the_agent_knows_nothing_when_its_memory_is_deleted(agent: Node) -> None:
    agent.ask(f"Remember: {FACT}")
    delete_the_memories(agent)
    assert agent.ask(QUESTION) == "I do not know."


def test_up_fails_when_the_model_refuses_the_key(agent: Node) -> None:
    environment = {**agent.stage.environment, "STANDIN_KEY": "sk-the-wrong-one"}
    wrong = Node(type(agent.stage)(agent.stage.folder, environment))
    failure = wrong.paddock("up", fails=True).stderr
    assert "✗ model " in failure
    assert "refuses the key: answers 401" in failure
    assert "✗ answer" in failure
    assert "sk-the-wrong-one" not in failure
    assert "✗ model " in wrong.paddock("up", fails=True).stderr, "a second up reports it again"
    agent.paddock("up")
    assert agent.ask("Say ok.") == "ok: Say ok."


# tests/faults/test_live_kills.py kills `up` and `down` at all of their steps, with another agent.
@pytest.mark.parametrize("step", ["cattle.clone", "agent.configure", pytest.param("agent.answer", marks=slow_proof)])
def test_up_resumes_after_a_kill_at_any_step(agent: Node, step: str) -> None:
    agent.ask(f"Remember: {FACT}")
    agent.paddock("down")
    kill_at_step(agent, step, "up")
    agent.paddock("up")
    assert agent.ask(QUESTION) == FACT
    assert agent.paddock("plan").stdout == "hermes: nothing to do\n"


@slow_proof
@pytest.mark.parametrize("step", ["cattle.stop", "cattle.detach", "cattle.destroy"])
def test_up_resumes_after_a_kill_in_down(agent: Node, step: str) -> None:
    agent.ask(f"Remember: {FACT}")
    kill_at_step(agent, step, "down")
    agent.paddock("up")
    assert agent.ask(QUESTION) == FACT


@slow_proof
def test_up_resumes_after_a_kill_while_creating_the_pet(node: Node) -> None:
    tree = node.file()
    tree["agents"] = {"second": tree["agents"]["hermes"]}
    path = str(node.write("second.yaml", tree))
    kill_at_step(node, "pet.create", "up", "-f", path)
    node.paddock("up", "-f", path)
    assert node.paddock("plan", "-f", path).stdout == "second: nothing to do\n"
    node.paddock("down", "-f", path)
    node.paddock("forget", "second", "--name", "second", "-f", path)
