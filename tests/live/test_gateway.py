"""The real LiteLLM proxy on a machine of its own, and an agent on another that gets its models from it."""

from __future__ import annotations

import pytest

from live.stage import Node, faults

pytestmark = [pytest.mark.live, faults]  # the proxy is 750 MB of code to unpack and compile

MASTER_KEY = "sk-master-of-the-door"


def test_a_prompt_through_two_machines(node: Node) -> None:
    tree = node.file()
    agent = tree["agents"]["hermes"]
    model = agent["settings"]["providers"]["standin"]["base_url"]
    agent["settings"] = {
        "model": {"default": "behind-it", "context_length": 131072},
        "model_catalog": {"enabled": False},
    }
    parameters = {"model": "openai/stand-in", "api_base": model, "api_key": "${STANDIN_KEY}"}
    tree["agents"] = {
        "guest": {**agent, "secrets": {}, "gateway": "door"},
        "door": {
            "kind": "litellm",
            "version": "1.106.2",
            "place": "box",
            "expose": {"proxy": {}},
            "settings": {"model_list": [{"model_name": "behind-it", "litellm_params": parameters}]},
            "secrets": {"STANDIN_KEY": {"env": "STANDIN_KEY"}, "LITELLM_MASTER_KEY": {"env": "MASTER_KEY"}},
        },
    }
    path = str(node.write("gateway.yaml", tree))
    two = Node(type(node.stage)(node.stage.folder, {**node.stage.environment, "MASTER_KEY": MASTER_KEY}))
    refused = two.paddock("plan", "-f", path, fails=True).stdout
    assert "door, from which guest gets its models, has no address yet" in refused
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
