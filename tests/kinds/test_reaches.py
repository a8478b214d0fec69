"""The endpoints that the file of an agent names."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.kinds import KINDS, agent_from
from paddock.kinds.endpoints import named_in
from paddock.kinds.workload import Paths

PATHS = Paths("/store", "/etc/paddock/a/current", "/state", "/state/home", "/state")


def reached(**agent: Any) -> set[str]:
    spec = agent_from({"place": "home", **agent})
    return {str(endpoint) for endpoint in KINDS[spec.kind].workload(spec, PATHS, "/tree").reaches}


@pytest.mark.parametrize(
    ("value", "endpoints"),
    [
        ("https://api.example.com/v1", ["api.example.com:443"]),
        ({"a": [{"b": "http://10.0.0.5:4000"}], "c": "ws://[fd00::5]"}, ["10.0.0.5:4000", "[fd00::5]:80"]),
        ("redis://cache:6379/0", ["cache:6379"]),
        ("redis://cache", []),
        ("http://${HOST}/v1", []),
        ("see http://10.0.0.5", []),
        ("file:///etc/passwd", []),
        ("http://a,http://b", []),
        ("http://10.0.0.5:99999", []),
        (["http://a.example", "http://a.example/"], ["a.example:80"]),
    ],
)
def test_urls_name_endpoints(value: object, endpoints: list[str]) -> None:
    assert [str(endpoint) for endpoint in named_in(value)] == endpoints


def test_hermes_reaches_models_messengers_and_mcp_servers() -> None:
    settings = {"model": {"provider": "custom:x"}, "providers": {"x": {"base_url": "http://10.0.0.5:4000/v1"}}}
    connectors = {
        "api_server": {"cors_origins": ["http://10.0.0.9:3000"]},
        "telegram": {"allow": [1], "endpoint": "http://10.0.0.6:8081"},
        "slack": {"allow": ["U1"]},
    }
    found = reached(
        kind="hermes",
        version="0.19.0",
        settings=settings,
        connectors=connectors,
        mcp_servers={"a": {"url": "https://mcp.example.com/mcp"}},
        environment={"HTTPS_PROXY": "http://10.0.0.7:3128"},
    )
    servers = {"slack.com:443", "files.slack.com:443", "wss-primary.slack.com:443", "wss-backup.slack.com:443"}
    assert found == {"10.0.0.5:4000", "10.0.0.6:8081", "mcp.example.com:443", "10.0.0.7:3128", *servers}


def test_a_proxy_reaches_its_models_and_a_service_the_urls_of_its_command() -> None:
    models = [{"model_name": "a", "litellm_params": {"model": "openai/a", "api_base": "http://10.0.0.5:11434"}}]
    assert reached(kind="litellm", version="1.106.2", settings={"model_list": models}) == {"10.0.0.5:11434"}
    assert reached(
        kind="service", command=["fetch", "https://a.example.com/x"], environment={"HUB": "http://10.0.0.5"}
    ) == {"a.example.com:443", "10.0.0.5:80"}
