"""The examples that translate the files of other tools run until their agent answers a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levels import slow_proof
from live.images import base_root
from live.manual import api_client, container, destroy
from live.node import Node
from live.test_lease import by_ssh

pytestmark = pytest.mark.live

EXAMPLES = Path(__file__).parents[2] / "examples"
NIXOS = EXAMPLES / "nixos-module"
VMID = 212  # of the host


class Translated:
    """An example on a machine of the test: its own keys, except those about where things are."""

    def __init__(self, node: Node, example: Path, over: dict[str, Any]) -> None:
        key = node.stage.environment["STANDIN_KEY"]
        self.node = node.with_environment(HERMES_ENV=f"OPENROUTER_API_KEY={key}\n", LITELLM_API_KEY=key)
        self.files = ["-f", str(example), "-f", str(node.write(f"over-{example.stem}.yaml", over))]

    def paddock(self, verb: str, *words: str) -> str:
        return self.node.paddock(verb, *words, *self.files).stdout

    def ask(self, prompt: str) -> str:
        return self.paddock("ask", "hermes", prompt).strip()


def of_the_module(node: Node, where: str) -> dict[str, Any]:
    """Return what replaces the address of OpenRouter, the secrets, and this machine in the examples for NixOS."""
    agent = {
        "settings": {
            "model": {"base_url": node.models, "context_length": 131072},
            "model_catalog": {"enabled": False},
        },
        "environment": {"OPENROUTER_BASE_URL": node.models},
        "environment_files": [{"env": "HERMES_ENV"}],
    }
    return {"places": {"here": by_ssh(node, where)["places"]["box"]}, "agents": {"hermes": agent}}


@pytest.fixture
def host(node: Node) -> Iterator[str]:
    api = api_client(node)
    yield container(node, api, VMID, memory=3072, rootfs="local-lvm:10")
    destroy(api, VMID)


@slow_proof
def test_the_full_example_of_the_nixos_module_runs(node: Node, host: str, tmp_path: Path) -> None:
    over = of_the_module(node, host)
    hermes = over["agents"]["hermes"]
    # There is no registry and no graphics card here. An MCP server by npx has a test of its own.
    hermes["container"] = {"base": "debian:12", "archive": str(base_root(tmp_path / "base.tar.gz")), "options": []}
    hermes["mcp_servers"] = {"filesystem": {"enabled": False}}
    node.shell(host, "install -d -o 10000 -g 10000 /home/user/projects")
    agent = Translated(node, NIXOS / "full.yaml", over)
    agent.paddock("up")
    assert agent.ask("Say hello.") == "ok: Say hello."
    assert agent.ask("Quote Ada, the gardener") == (NIXOS / "documents/SOUL.md").read_text().strip()
    assert agent.ask("Quote three horses") == (NIXOS / "documents/USER.md").read_text().strip()
    inside = ("exec", "hermes", *agent.files, "--", "sh", "-c")
    shown = agent.node.paddock(*inside, "hermes config get terminal.cwd; touch /projects/x && echo written").stdout
    assert shown.split() == ["/data/workspace", "written"]
    arguments = node.shell(host, "docker top paddock-home_hermes -eo pid,args")
    assert "gateway run" in arguments
    assert "--verbose" in arguments
    agent.paddock("down")
