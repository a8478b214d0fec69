"""The real LiteLLM proxy on one machine, and an agent on another machine that gets its models from the proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from levels import slow_proof
from live.node import Node

pytestmark = [pytest.mark.live, slow_proof]  # the proxy is 750 MB of code to unpack and compile

MASTER_KEY = "sk-master-of-the-door"


def door(node: Node) -> dict[str, Any]:
    """The proxy as an agent, which offers the stand-in model under another name."""
    parameters = {"model": "openai/stand-in", "api_base": node.models, "api_key": "${STANDIN_KEY}"}
    return {
        "kind": "litellm",
        "version": "1.106.2",
        "place": "box",
        "expose": {"proxy": {}},
        "settings": {"model_list": [{"model_name": "behind-it", "litellm_params": parameters}]},
        "secrets": {"STANDIN_KEY": {"env": "STANDIN_KEY"}, "LITELLM_MASTER_KEY": {"env": "MASTER_KEY"}},
    }


@contextmanager
def gateway(node: Node) -> Iterator[str]:
    """Run the proxy, and yield its URL."""
    path = str(
        node.write("door.yaml", {"project": "home", "places": node.file()["places"], "agents": {"door": door(node)}})
    )
    with_key = node.with_environment(MASTER_KEY=MASTER_KEY)
    with_key.paddock("up", "-f", path)
    try:
        found = json.loads(with_key.paddock("outputs", "--json", "-f", path).stdout)
        yield f"http://{found['door']['address']}:4000/v1"
    finally:
        with_key.paddock("down", "-f", path)
        with_key.paddock("forget", "door", "--name", "door", "-f", path)


def test_an_agent_gets_its_models_from_a_litellm_proxy_on_another_machine(node: Node) -> None:
    tree = node.file()
    agent = tree["agents"]["hermes"]
    agent["settings"] = {
        "model": {"default": "behind-it", "context_length": 131072},
        "model_catalog": {"enabled": False},
    }
    tree["agents"] = {"guest": {**agent, "secrets": {}, "gateway": "door"}, "door": door(node)}
    path = str(node.write("gateway.yaml", tree))
    two = node.with_environment(MASTER_KEY=MASTER_KEY)
    refused = two.paddock("plan", "-f", path, fails=True).stdout
    assert "door, the model gateway of guest, has no address yet" in refused
    two.paddock("up", "-f", path)
    try:
        assert two.paddock("ask", "guest", "Say hello.", "-f", path).stdout.strip() == "ok: Say hello."
        proofs = two.paddock("verify", "-f", path).stdout
        assert ":4000/v1 answers with LITELLM_API_KEY" in proofs
        assert "exposed: 4000" in proofs
        assert MASTER_KEY not in proofs
        assert two.paddock("plan", "-f", path).stdout == "door: nothing to do\nguest: nothing to do\n"
    finally:
        two.paddock("down", "-f", path)
