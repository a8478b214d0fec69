"""Proxmox backs up the pet of a real agent, with the daily token; a destroyed memory comes back from the archive."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from levels import slow_proof
from live.node import DAILY, ROOT, Node, kill_at_step, wait_for
from live.node_root import run_lines
from live.test_memory import delete_the_memories
from live.test_pools import client
from paddock.demo import FACT, QUESTION

pytestmark = pytest.mark.live

FILE = ("-f", "archived.yaml")
HOME = "/var/lib/paddock/hermes/home/.hermes"
COUNT = f"""python3 - <<'END'
import sqlite3
print(sqlite3.connect("{HOME}/state.db").execute("select count(*) from messages").fetchone()[0])
END"""
BACKUP = ("pet.backup", "agent.stop", "pet.confirm", "agent.start")
READING = ("reader.reach", "spare.restore", "reader.clone", "reader.start", "reader.stop", "reader.destroy")
REST = ("spare.destroy", "agent.stop", "state.swap", "agent.configure", "agent.answer", "state.finish")


def first_by_default(steps: tuple[str, ...]) -> list[Any]:
    return [steps[0], *(pytest.param(step, marks=slow_proof) for step in steps[1:])]


@pytest.fixture
def archived(agent: Node) -> Node:
    """The agent, with a daily token that got the privileges that doctor asks for."""
    tree = agent.file()
    tree["agents"]["hermes"]["backup"] = {"to": {"proxmox": {"storage": "local"}}, "keep": {"last": 1}}
    agent.write("archived.yaml", tree)
    daily = agent.with_environment(PVE_TOKEN=agent.token(DAILY))
    said = _doctor(daily)
    run_lines(agent, [line.strip() for line in said.stdout.splitlines() if line.strip().startswith("pveum")])
    assert _doctor(daily).returncode == 0
    return daily


def _doctor(node: Node) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", "doctor", *FILE]
    return subprocess.run(
        command, cwd=node.stage.folder, env=dict(node.stage.environment), capture_output=True, text=True, timeout=120
    )


def containers(node: Node) -> dict[int, dict[str, Any]]:
    """The configuration of each container of the node."""
    with client(node, ROOT) as root:
        numbers = [row["vmid"] for row in root.get("/nodes/pve/lxc").json()["data"]]
        return {number: root.get(f"/nodes/pve/lxc/{number}/config").json()["data"] for number in numbers}


def pets(node: Node) -> dict[int, dict[str, Any]]:
    found = containers(node).items()
    return {number: config for number, config in found if "role=pet" in config.get("description", "")}


def expect_nothing_left(node: Node) -> None:
    words = [config.get("description", "") for config in containers(node).values()]
    assert not [each for each in words if "role=spare" in each or "role=reader" in each]


def test_a_destroyed_memory_comes_back_from_a_backup_made_while_the_agent_was_busy(archived: Node) -> None:
    delete_the_memories(archived)
    assert FACT in archived.ask(f"Remember: {FACT}")
    before, kept = int(archived.machine(COUNT)), pets(archived)
    busy = archived.start("ask", "hermes", "Tell me more.")
    archived.paddock("backup", "hermes", *FILE)
    busy.wait(120)
    [listed] = json.loads(archived.paddock("backup", "list", "hermes", "--json", *FILE).stdout)
    assert "is complete" in archived.paddock("backup", "check", "hermes", *FILE).stdout
    archived.machine(
        f"systemctl stop paddock-home_hermes.gateway && find {HOME} -mindepth 1 -delete && "
        "systemctl start paddock-home_hermes.gateway"
    )
    archived.paddock("restore", "hermes", "--yes", listed["backup"], *FILE)
    assert archived.ask(QUESTION) == FACT
    assert int(archived.machine(COUNT)) >= before
    assert pets(archived) == kept
    expect_nothing_left(archived)
    assert "keep" in archived.paddock("backup", "prune", "hermes", *FILE).stdout


@pytest.mark.parametrize("step", first_by_default(BACKUP))
def test_a_killed_backup_leaves_an_agent_that_up_starts_and_no_backup_that_counts(archived: Node, step: str) -> None:
    known = json.loads(archived.paddock("backup", "list", "hermes", "--json", *FILE).stdout)
    kill_at_step(archived, step, "backup", "hermes", *FILE)
    archived.paddock("up")
    wait_for(lambda: archived.status()["health"] == "ok")
    now = json.loads(archived.paddock("backup", "list", "hermes", "--json", *FILE).stdout)
    new = len(now) - len(known)
    assert new == (step == "agent.start") or (step == "pet.confirm" and new in (0, 1))


@slow_proof
@pytest.mark.parametrize("step", [*READING, *REST])
def test_a_killed_restore_converges_and_leaves_no_copy(archived: Node, step: str) -> None:
    archived.ask(f"Remember: {FACT}")
    archived.paddock("backup", "hermes", *FILE)
    kept = pets(archived)
    kill_at_step(archived, step, "restore", "hermes", "--yes", *FILE)
    archived.paddock("up")
    assert archived.ask(QUESTION) == FACT
    assert pets(archived) == kept
    if step == "spare.restore":
        # The node was still restoring the copy, so nobody could tell yet whose it is.
        wait_for(lambda: not any("lock" in config for config in containers(archived).values()))
        archived.paddock("up")
    expect_nothing_left(archived)


@slow_proof
def test_everything_but_the_storage_is_lost_and_the_memory_comes_back(archived: Node) -> None:
    archived.ask(f"Remember: {FACT}")
    archived.paddock("backup", "hermes", *FILE)
    number = next(iter(pets(archived)))
    archived.paddock("down")
    setup = archived.with_environment(PVE_TOKEN=archived.token("pooled@pve!setup"))
    setup.paddock("forget", "hermes", "--name", "hermes")
    setup.paddock("up", "--set", f"agents.hermes.state.pet={number}")
    assert archived.ask(QUESTION) == "I do not know."
    archived.paddock("restore", "hermes", "--yes", *FILE)
    assert archived.ask(QUESTION) == FACT
