"""The deployments of the five seeds, written by a reader of the documentation, come up at the first `up`.

The files are those that tests/cli/test_seeds_planned.py checks and plans. Here only the addresses are others: of the
node, of the model and of the messenger.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import DATA
from levels import slow_proof
from live.images import base_root
from live.manual import api_client
from live.messenger import messenger
from live.node import Node, wait_for
from live.node_root import up_with_manual_steps
from live.test_docker_lxc import Shape, forget_hermes, removed_afterwards, run_the_checks_of_the_seed
from live.test_gateway import MASTER_KEY, gateway
from live.test_translated import NIXOS, Translated, host, of_the_module
from paddock.demo import FACT, QUESTION

__all__ = ["host"]
pytestmark = [pytest.mark.live, slow_proof]

SEEDS = DATA / "seeds"


def test_docker_in_lxc_with_two_mounts_litellm_and_telegram(node: Node, official: Path) -> None:
    """Seeds 000 and 001: the official image, a gateway on another machine, and a bot for one user."""
    forget_hermes(node)
    with gateway(node) as models, messenger(node) as chat:
        file = SEEDS / "docker-lxc.yaml"
        shape = Shape(node, official, models, "behind-it", MASTER_KEY, chat, file=file, variable="OPENAI_API_KEY")
        with removed_afterwards(shape):
            up_with_manual_steps(shape.node, *shape.files)
            run_the_checks_of_the_seed(shape)
            # The allowed user gets an answer, another user gets none.
            chat.say(666, "Let me in.")
            chat.say(4242, "Say hello.")
            wait_for(lambda: any("ok: Say hello" in text for text in chat.heard(4242)))
            assert chat.heard(666) == []
            proofs = shape.paddock("verify")
            assert f"{models} answers with OPENAI_API_KEY" in proofs
            assert "telegram connected" in proofs
            assert MASTER_KEY not in proofs


def test_pet_and_cattle_recreate_the_machine_and_keep_the_memory(new_node: Node) -> None:
    """Seeds 002 and 004: the machine 105 is destroyed and created again, and 999 keeps the memory."""
    place = new_node.file()["places"]["box"]["proxmox"]
    place["ssh"]["key"] = str(new_node.stage.folder / "id_ed25519")
    provider = {"base_url": new_node.models, "default_model": "stand-in", "discover_models": False}
    settings = {
        "model": {"default": "stand-in", "context_length": 131072},
        "model_catalog": {"enabled": False},
        "providers": {"litellm": provider},
    }
    over = {"places": {"home": {"proxmox": place}}, "agents": {"hermes": {"settings": settings}}}
    agent = Translated(new_node, SEEDS / "pet-and-cattle.yaml", over)
    agent.paddock("up")
    agent.ask(f"Remember: {FACT}")
    api = api_client(new_node)
    before = api.get("/nodes/pve/lxc/999/config")
    assert before["protection"] == 1
    agent.paddock("cycle")
    assert agent.ask(QUESTION) == FACT
    assert api.get("/nodes/pve/lxc/105/status/current")["status"] == "running"
    assert api.get("/nodes/pve/lxc/999/config") == before
    assert "dashboard" in agent.paddock("verify")
    assert agent.paddock("plan") == "hermes: nothing to do\n"


def test_the_native_mode_of_the_module_answers(node: Node, host: str) -> None:
    """Seed 003, native mode."""
    agent = Translated(node, NIXOS / "native.yaml", of_the_module(node, host))
    agent.paddock("up")
    assert agent.ask("Say hello.") == "ok: Say hello."
    assert "anthropic/claude-sonnet-4" in node.shell(host, "hermes config get model.default </dev/null")
    assert agent.paddock("plan") == "hermes: nothing to do\n"
    agent.paddock("down")


def test_the_container_mode_of_the_module_answers(node: Node, host: str, tmp_path: Path) -> None:
    """Seed 003, container mode."""
    over = of_the_module(node, host)
    hermes: dict[str, Any] = over["agents"]["hermes"]
    hermes["container"] = {"base": "debian:12", "archive": str(base_root(tmp_path / "base.tar.gz"))}
    agent = Translated(node, NIXOS / "container.yaml", over)
    agent.paddock("up")
    assert agent.ask("Say hello.") == "ok: Say hello."
    assert json.loads(agent.paddock("status", "--json"))[0]["health"] == "ok"
    agent.paddock("down")


def test_software_that_the_agent_installed_itself_outlives_its_container(node: Node, host: str, tmp_path: Path) -> None:
    """Seed 003, container mode: `apt`, `pip` and `npm` by the agent, which is why the seed has this mode."""
    over = of_the_module(node, host)
    hermes: dict[str, Any] = over["agents"]["hermes"]
    archive = str(base_root(tmp_path / "base.tar.gz"))
    hermes["container"] = {"base": "debian:12", "archive": archive, "writable": True}
    hermes |= {"programs": ["node"], "packages": ["python3-pip"]}
    agent = Translated(node, NIXOS / "container.yaml", over)
    agent.paddock("up")

    def inside(script: str) -> str:
        return agent.node.paddock("exec", "hermes", *agent.files, "--", "sh", "-c", script).stdout.strip()

    node_of_pip = "from setuptools import setup; setup(name='tiny', version='1', scripts=['tiny'])"
    inside(f"mkdir -p ~/py ~/js && cd ~/py && printf '#!/bin/sh\necho pip\n' >tiny && echo \"{node_of_pip}\" >setup.py")
    inside("pip3 install --no-index --no-build-isolation -q ~/py")
    inside("""cd ~/js && printf '#!/usr/bin/env node\nconsole.log("npm")\n' >small.js && chmod +x small.js
printf '{"name": "small", "version": "1.0.0", "bin": {"small": "small.js"}}' >package.json
npm install -g ~/js 2>&1""")
    inside("apt-get update -qq && apt-get install -y -qq --no-install-recommends jq >/dev/null 2>&1")
    installed = "tiny; small; jq --version | cut -c 1-3"
    assert inside(installed).split() == ["pip", "npm", "jq-"]

    node.shell(host, "systemctl restart paddock-home_hermes.container")
    wait_for(lambda: json.loads(agent.paddock("status", "--json"))[0]["health"] == "ok", seconds=60)
    assert inside(installed).split() == ["pip", "npm", "jq-"]
    hermes["settings"]["display"] = {"compact": True}
    agent = Translated(node, NIXOS / "container.yaml", over)
    agent.paddock("up")
    assert inside(installed).split() == ["pip", "npm", "jq-"]
    # In another container, what is in the state is there. The packages of the distribution are lost, as the plan says.
    assert "lost with the container: jq" in agent.paddock("plan", "--set", "agents.hermes.container.shm_size=2G")
    agent.paddock("up", "--recreate")
    assert inside("tiny; command -v jq || echo none").split() == ["pip", "none"]
    agent.paddock("down")
