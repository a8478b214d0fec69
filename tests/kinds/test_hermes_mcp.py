"""MCP servers: each key reaches Hermes, needed programs are brought, and servers that cannot start are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from paddock.kinds import agent_from
from paddock.kinds.files import dump
from paddock.kinds.hermes import checks, mcp, settings
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec, McpServerSpec
from paddock.kinds.workload import Paths

PATHS = Paths(code="/code", etc="/etc/x", state="/state", home="/state/home", state_link="/state")
URL = {"url": "https://192.0.2.7/mcp"}
NPX = {"command": "npx", "args": ["-y", "server"]}


def agent(**keys: Any) -> HermesSpec:
    found = agent_from({"kind": "hermes", "version": "0.19.0", "place": "home", **keys})
    assert isinstance(found, HermesSpec)
    return found


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("enabled", False, {"enabled": False}),
        ("timeout", "2m", {"timeout": 120.0}),
        ("connect_timeout", "5s", {"connect_timeout": 5.0}),
        ("keepalive_interval", "10s", {"keepalive_interval": 10.0}),
        ("supports_parallel_tool_calls", True, {"supports_parallel_tool_calls": True}),
        ("tools", {"include": ["a"]}, {"tools": {"include": ["a"]}}),
        ("tools", {"exclude": ["b"], "resources": False}, {"tools": {"exclude": ["b"], "resources": False}}),
        ("tools", {"prompts": False}, {"tools": {"prompts": False}}),
        ("sampling", {"enabled": False}, {"sampling": {"enabled": False}}),
        (
            "sampling",
            {"model": "m", "allowed_models": ["m"], "timeout": "30s", "log_level": "debug"},
            {"sampling": {"model": "m", "allowed_models": ["m"], "timeout": 30.0, "log_level": "debug"}},
        ),
        (
            "sampling",
            {"max_rpm": 3, "max_tokens_cap": 9, "max_tool_rounds": 0},
            {"sampling": {"max_rpm": 3, "max_tokens_cap": 9, "max_tool_rounds": 0}},
        ),
        ("elicitation", {"enabled": False, "timeout": "1m"}, {"elicitation": {"enabled": False, "timeout": 60.0}}),
    ],
)
@pytest.mark.parametrize("server", [NPX, URL], ids=["program", "url"])
def test_a_key_of_every_server_reaches_hermes(
    server: dict[str, Any], key: str, value: object, found: dict[str, Any]
) -> None:
    plain = mcp.settings(McpServerSpec.model_validate(server))
    assert plain == {"enabled": True, **server}
    assert mcp.settings(McpServerSpec.model_validate({**server, key: value})) == {**plain, **found}


@pytest.mark.parametrize(
    ("server", "more", "found"),
    [
        (NPX, {"env": {"A": "${B}"}}, {"env": {"A": "${B}"}}),
        (NPX, {"idle_timeout": "1h"}, {"idle_timeout_seconds": 3600.0}),
        (NPX, {"max_lifetime": "1d"}, {"max_lifetime_seconds": 86400.0}),
        (URL, {"headers": {"A": "${B}"}}, {"headers": {"A": "${B}"}}),
        (URL, {"transport": "sse"}, {"transport": "sse"}),
        (URL, {"transport": "http"}, {}),
        (URL, {"auth": "oauth"}, {"auth": "oauth"}),
        (
            URL,
            {"auth": "oauth", "oauth": {"client_id": "i", "client_secret": "${S}", "redirect_port": 8700}},
            {"auth": "oauth", "oauth": {"client_id": "i", "client_secret": "${S}", "redirect_port": 8700}},
        ),
        (
            URL,
            {"auth": "oauth", "oauth": {"scope": "a b", "client_name": "n", "timeout": "1m", "redirect_host": "h"}},
            {"auth": "oauth", "oauth": {"scope": "a b", "client_name": "n", "timeout": 60.0, "redirect_host": "h"}},
        ),
        (
            URL,
            {"auth": "oauth", "oauth": {"redirect_uri": "http://127.0.0.1:1/x"}},
            {"auth": "oauth", "oauth": {"redirect_uri": "http://127.0.0.1:1/x"}},
        ),
        (URL, {"ssl_verify": False}, {"ssl_verify": False}),
        (URL, {"ca_file": "/etc/ca.pem"}, {"ssl_verify": "/etc/ca.pem"}),
        (URL, {"client_cert": "/a.pem"}, {"client_cert": "/a.pem"}),
        (URL, {"client_cert": "/a.pem", "client_key": "/k"}, {"client_cert": "/a.pem", "client_key": "/k"}),
        (
            URL,
            {"client_cert": "/a.pem", "client_key": "/k", "client_key_password": "${P}"},
            {"client_cert": ["/a.pem", "/k", "${P}"]},
        ),
        (URL, {"skip_preflight": True}, {"skip_preflight": True}),
    ],
)
def test_a_key_of_one_sort_of_server_reaches_hermes(
    server: dict[str, Any], more: dict[str, Any], found: dict[str, Any]
) -> None:
    plain = mcp.settings(McpServerSpec.model_validate(server))
    assert mcp.settings(McpServerSpec.model_validate({**server, **more})) == {**plain, **found}


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({**NPX, "transport": "sse"}, "transport needs url:"),
        ({**NPX, "auth": "oauth", "ssl_verify": False}, "auth and ssl_verify need url:"),
        ({**URL, "idle_timeout": "1h"}, "idle_timeout needs command:"),
        ({**URL, "oauth": {}}, "oauth needs auth: oauth"),
        ({**URL, "client_key": "/k"}, "client_key needs client_cert:"),
        ({**URL, "client_cert": "/c", "client_key_password": "${P}"}, "client_key_password needs client_key:"),
        ({**URL, "ca_file": "/c", "ssl_verify": False}, "contradict each other"),
        ({**URL, "keepalive_interval": "1s"}, "keepalive_interval must be at least 5s"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(server: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        McpServerSpec.model_validate(server)


def test_variables_in_every_text_of_a_server_have_to_exist() -> None:
    server = {**URL, "auth": "oauth", "oauth": {"client_secret": "${LACKS}"}}
    found = [*settings.unnamed_variables(agent(mcp_servers={"a": server}))]
    sentence = "LACKS is neither under secrets nor under environment"
    assert found == [(("mcp_servers", "a", "oauth", "client_secret"), sentence)]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, []),
        ({"programs": ["uv"]}, ["uv"]),
        ({"mcp_servers": {"a": NPX}}, ["node"]),
        ({"mcp_servers": {"a": {"command": "node", "args": ["/srv/a.js"]}}}, ["node"]),
        ({"mcp_servers": {"a": {"command": "uvx", "args": ["a"]}, "b": NPX}}, ["node", "uv"]),
        ({"mcp_servers": {"a": {"command": "/usr/local/bin/npx"}}}, []),
        ({"mcp_servers": {"a": {"command": "python3"}}}, []),
        ({"mcp_servers": {"a": NPX}, "packages": ["nodejs", "npm"]}, []),
        ({"mcp_servers": {"a": URL}}, []),
        ({"settings": {"mcp_servers": {"a": NPX}}}, ["node"]),
    ],
)
def test_node_and_uv_are_brought_for_the_servers_that_need_them(keys: dict[str, Any], wanted: list[str]) -> None:
    assert mcp.wanted_programs(agent(**keys)) == wanted
    found = Hermes().workload(agent(**keys), PATHS, "/code/tree")
    commands = {"node": ["node", "npm", "npx"], "uv": ["uv", "uvx"]}
    names = {each.path for each in found.files if each.path.startswith("bin/")}
    assert names == {"bin/hermes", *(f"bin/{command}" for name in wanted for command in commands[name])}


def test_an_image_with_the_code_has_its_own_programs() -> None:
    keys = {"runtime": "docker", "container": {"image": "hermes:1"}}
    found = Hermes().workload(agent(mcp_servers={"a": NPX}, **keys), PATHS, "")
    assert not [each.path for each in found.files if each.path.startswith("bin/")]
    refused = [*mcp.mistakes(agent(programs=["node"], **keys))]
    assert [location for location, _ in refused] == [("programs",)]
    assert not [*mcp.mistakes(agent(mcp_servers={"a": NPX}, **keys))]


NPM, PYPI = "registry.npmjs.org:443", ["pypi.org:443", "files.pythonhosted.org"]


@pytest.mark.parametrize(
    ("egress", "server", "refused"),
    [
        ("open", NPX, False),
        ("internet", NPX, False),
        ([], NPX, True),
        (["registry.npmjs.org:80"], NPX, True),
        ([NPM], NPX, False),
        ([], {**NPX, "args": ["--offline", "server"]}, False),
        ([], {**NPX, "env": {"NPM_CONFIG_REGISTRY": "http://192.0.2.3:4873"}}, False),
        ([], {**NPX, "enabled": False}, False),
        ([], {"command": "node", "args": ["/srv/a.js"]}, False),
        ([NPM], {"command": "uvx", "args": ["a"]}, True),
        (PYPI, {"command": "uvx", "args": ["a"]}, False),
    ],
)
def test_a_server_that_could_not_fetch_its_package_is_refused(
    egress: object, server: dict[str, Any], refused: bool
) -> None:
    found = [*mcp.mistakes(agent(mcp_servers={"a": server}, network={"egress": egress}))]
    assert [location for location, _ in found] == ([("mcp_servers", "a", "command")] if refused else [])


def test_servers_in_hermes_own_form_get_what_they_need_too() -> None:
    own = {"a": NPX, "b": {**NPX, "enabled": False}, "c": {**URL, "enabled": "no"}, "d": {"command": ["npx"]}, "e": 1}
    found = agent(settings={"mcp_servers": own}, network={"egress": []})
    assert [*Hermes().extras(found)] == ["mcp"]
    assert [check.name for check in checks.of_mcp_servers(found, "hermes", "/home")] == ["mcp.a"]
    assert [location for location, _ in mcp.mistakes(found)] == [("settings", "mcp_servers", "a", "command")]


def test_the_refusal_says_what_to_add() -> None:
    (_, sentence), *_ = mcp.mistakes(agent(mcp_servers={"a": NPX}, network={"egress": []}))
    assert sentence == (
        "npx fetches packages from registry.npmjs.org when the server starts: add registry.npmjs.org:443 to "
        "network.egress, name your own index under env: {NPM_CONFIG_REGISTRY: …}, or add --offline to args"
    )


def test_a_registry_under_env_is_open_to_the_agent() -> None:
    server = {**NPX, "env": {"NPM_CONFIG_REGISTRY": "http://192.0.2.3:4873/"}}
    found = Hermes().workload(agent(mcp_servers={"a": server}, network={"egress": []}), PATHS, "/code/tree")
    assert "192.0.2.3:4873" in map(str, found.reaches)


def test_a_copy_of_the_agent_runs_the_same_code_without_its_servers() -> None:
    original = agent(mcp_servers={"a": NPX}, settings={"model": {"provider": "anthropic"}})
    copy = Hermes().harmless(original, "http://127.0.0.1:1/v1", {})
    assert copy.mcp_servers == {}
    assert Hermes().code(copy, Path()).id == Hermes().code(original, Path()).id


# A reader of YAML 1.1, as Hermes has one.
def _read_as_hermes_does(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    return yaml.load(text)


_LIKE_VALUES = st.text("01:_.oynfstrue", min_size=1, max_size=6)


@given(st.dictionaries(_LIKE_VALUES, _LIKE_VALUES))
def test_texts_stay_texts_for_hermes(texts: dict[str, str]) -> None:
    assert _read_as_hermes_does(dump({"a": texts})) == {"a": texts}


@pytest.mark.parametrize("name", ["off", "on", "yes", "No", "1_000", "1.30"])
def test_the_name_of_a_server_stays_a_text_for_hermes(name: str) -> None:
    servers = {name: {"command": "true", "env": {"A": "yes", "B": "1:30"}}}
    found = Hermes().workload(agent(mcp_servers=servers), PATHS, "/code/tree")
    config = next(each.content for each in found.files if each.path == "hermes/config.yaml")
    assert _read_as_hermes_does(config)["mcp_servers"] == {name: {"enabled": True, **servers[name]}}
