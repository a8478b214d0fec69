"""An MCP server that npx runs, in the confinement of an agent's units and with closed connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agent.anthropic_model import KEY, Messages, anthropic_model
from agent.npm_registry import PACKAGE, npm_registry
from levels import slow_proof
from live.node import Node, wait_for

pytestmark = [pytest.mark.live, slow_proof]  # the template has Node, which no other test needs


@dataclass(frozen=True)
class Confined:
    """Hermes on the node; the file names its model and its registry, and nothing else is open."""

    node: Node
    path: str
    model: Messages

    def paddock(self, verb: str, *words: str, fails: bool = False) -> str:
        return self.node.paddock(verb, "-f", self.path, *words, fails=fails).stdout

    def restart(self) -> None:
        """Start the agent again as systemd would after a crash, without the checks of `paddock restart`."""
        self.node.machine("systemctl restart paddock-home_hermes.gateway")
        wait_for(lambda: self.node.status()["health"] == "ok", seconds=120)

    def lines(self) -> dict[str, Any]:
        (report,) = json.loads(self.paddock("verify", "--json"))
        return {line["check"]: line for line in report["lines"]}


@pytest.fixture(scope="module")
def confined(node: Node) -> Iterator[Confined]:
    tree = node.file()
    with anthropic_model(node.gateway) as model, npm_registry(node.gateway) as registry:
        spec = tree["agents"]["hermes"]
        spec["settings"] = {
            "model": {"provider": "anthropic", "default": "claude-stand-in", "context_length": 131072},
            "model_catalog": {"enabled": False},
        }
        spec["environment"] = {"ANTHROPIC_BASE_URL": model.url}
        spec["secrets"] = {"ANTHROPIC_API_KEY": {"env": "ANTHROPIC_API_KEY"}}
        variables = {"NPM_CONFIG_REGISTRY": registry, "HOUR": "7"}
        spec["mcp_servers"] = {"clock": {"command": "npx", "args": ["-y", PACKAGE], "env": variables}}
        spec["network"] = {"egress": []}
        own = node.with_environment(ANTHROPIC_API_KEY=KEY)
        found = Confined(own, str(own.write("mcp.yaml", tree)), model)
        found.paddock("up")
        yield found
        found.paddock("down")  # the machine is from another template than that of other tests


def test_the_server_is_connected_and_the_model_is_offered_its_tool(confined: Confined) -> None:
    assert confined.paddock("ask", "hermes", "Say hello.").strip() == "ok: Say hello."
    assert "mcp__clock__hour_7" in confined.model.tools()
    line = confined.lines()["mcp.clock"]
    assert (line["outcome"], line["evidence"]) == (
        "ok",
        "the agent's log says: connected, 1 tool: mcp__clock__hour_7",
    )


def test_lines_of_an_earlier_start_do_not_count(confined: Confined) -> None:
    confined.paddock("exec", "hermes", "--", "sh", "-c", "rm -r ~/.npm; mkdir ~/.npm; chmod 0 ~/.npm")
    confined.restart()
    (report,) = json.loads(confined.paddock("verify", "--json", fails=True))
    failed = [line for line in report["lines"] if line["outcome"] == "failed"]
    assert [line["check"] for line in failed] == ["mcp.clock"]
    assert failed[0]["evidence"].startswith("the agent's log says: ")
    confined.paddock("exec", "hermes", "--", "sh", "-c", "chmod 700 ~/.npm")
    confined.restart()
    assert confined.lines()["mcp.clock"]["outcome"] == "ok"
