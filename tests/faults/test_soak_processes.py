"""Processes with many runs, a run that waits, and Hermes in a few cycles: nothing grows, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from faults.inventory import inventory, leaks_now
from faults.judge import Sample, growth, shown
from faults.long_run import long_run
from faults.soak import LONG, soak
from levels import by_level, slow_proof
from live.node import Node
from live.node_root import up_with_manual_steps
from live.test_pet_and_cattle import WEB, Web
from pvebox.standins.stage import server

WAITING_SAMPLES = 60  # a second apart
HERMES_CYCLES = 5
PLANS = by_level(40, 200)


@pytest.mark.live
@slow_proof
def test_memory_and_handles_of_many_cycles_and_ups_in_one_process_stay_flat(
    live_node: Node, show_table: Callable[[str], None]
) -> None:
    found = soak(live_node, 0, LONG)
    show_table("\n".join(f"{name}: {shown(samples)}" for name, samples in found.used.items()))
    assert len(found.used) == len(LONG)
    assert found.records > 0
    assert found.faults == []


def test_memory_and_handles_of_many_plans_in_one_process_stay_flat(
    tmp_path: Path, show_table: Callable[[str], None]
) -> None:
    options = ("--runtime", "memory", "--state", str(tmp_path / "sandbox"), "--port", "0")
    with server(tmp_path, "pvebox", "serve", *options) as node:
        tree = {"project": "home", "places": {"box": {"proxmox": place_of(node)}}, "agents": {"web": WEB}}
        YAML(typ="safe").dump(tree, tmp_path / "paddock.yaml")
        (tmp_path / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== someone\n")
        environment = {**os.environ, "PVE_TOKEN": "=".join(next(iter(node["tokens"].items())))}
        samples = long_run(tmp_path / "paddock.yaml", environment, f"plan={PLANS}")
    show_table(f"{PLANS} plans in one process: {shown(samples)}")
    assert len(samples) == PLANS
    assert growth("many plans", samples) == []


def place_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a place of the file for a sandbox that is ready."""
    same = {key: node[key] for key in ("url", "node", "ca", "storage", "base", "bridge")}
    return {**same, "token": {"env": "PVE_TOKEN"}, "ssh": {"key": "id"}}


@pytest.mark.live
@slow_proof
def test_memory_and_handles_of_a_waiting_up_stay_flat(live_node: Node, show_table: Callable[[str], None]) -> None:
    """`up` waits until root has run a command. It asks the node again and again."""
    web = Web(live_node, "waiting")
    web.spec["mounts"] = [{"host": "/mnt/pve/hdd/waiting", "path": "/data"}]
    samples: list[Sample] = []

    def watch(pid: int) -> None:
        for _ in range(WAITING_SAMPLES):
            samples.append(Sample.of(pid))
            time.sleep(1)

    try:
        web.paddock("plan")  # writes the file
        up_with_manual_steps(live_node, "-f", str(live_node.stage.folder / "waiting.yaml"), while_waiting=watch)
    finally:
        web.remove()
    assert len(samples) == WAITING_SAMPLES
    assert growth("a waiting `up`", samples) == []
    show_table(f"a waiting `up`, {WAITING_SAMPLES} s: {shown(samples)}")


@pytest.mark.live
@slow_proof
def test_hermes_keeps_its_memory_and_its_conversation_in_every_cycle(
    live_node: Node, show_table: Callable[[str], None]
) -> None:
    folder = live_node.stage.folder / "talk"
    folder.mkdir()
    node = live_node.with_environment(TMPDIR=str(folder))

    def chat(*words: str, said: str) -> str:
        command = [sys.executable, "-m", "paddock", "chat", "hermes", *words]
        environment = dict(node.stage.environment)
        done = subprocess.run(
            command, cwd=node.stage.folder, env=environment, input=said, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    node.paddock("up")
    opening = "This is where the soak begins."
    chat(said=f"{opening}\n")
    before, rows = inventory(node), 0
    words = [f"heron-{number * 7919}" for number in range(1, HERMES_CYCLES + 1)]
    for number, word in enumerate(words, 1):
        node.ask(f"Remember: the word of round {number} is {word}")
        node.paddock("cycle")
        kept = messages(node)
        assert kept > rows
        rows = kept
        assert opening in chat("--continue", said="Repeat my first message.\n")
    for number, word in enumerate(words, 1):
        assert word in node.ask(f"What is the word of round {number}?")
    assert leaks_now(node, before) == []
    show_table(f"Hermes: {HERMES_CYCLES} cycles, {rows} messages kept, every fact and the conversation recalled")


def messages(node: Node) -> int:
    """Return how many messages Hermes keeps; assert that its database is whole."""
    database = "/var/lib/paddock/hermes/home/.hermes/state.db"
    program = (
        f"import sqlite3; ask = sqlite3.connect('file:{database}?mode=ro', uri=True).execute; "
        "print(*ask('PRAGMA integrity_check').fetchone(), *ask('SELECT count(*) FROM messages').fetchone())"
    )
    said = node.machine(f'setpriv --reuid hermes --regid hermes --clear-groups python3 -c "{program}"')
    integrity, count = said.split()
    assert integrity == "ok"
    return int(count)
