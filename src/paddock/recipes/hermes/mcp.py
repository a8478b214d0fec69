"""MCP servers: as settings of Hermes, the rules that their keys have to keep, and the checks of `verify`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paddock.recipes.checks import Check, LogLines
from paddock.recipes.hermes.mcp_spec import McpServerSpec
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Verdict
from paddock.spec.durations import Duration
from paddock.spec.kinds import Mistake
from paddock.spec.tree import Location

# Keys with the same name and meaning for Hermes; durations become seconds.
_SAME: Final = (
    *("command", "args", "env", "url", "headers", "auth", "oauth", "client_cert", "client_key", "skip_preflight"),
    *("timeout", "connect_timeout", "keepalive_interval", "supports_parallel_tool_calls", "tools", "sampling"),
    "elicitation",
)


def settings(server: McpServerSpec) -> dict[str, Any]:
    """Return a server as Hermes' settings. Keys that the file leaves to Hermes are left out."""
    given = _written(server.model_dump(include=set(_SAME), exclude_defaults=True))
    found: dict[str, Any] = {"enabled": server.enabled, **{key: given[key] for key in _SAME if key in given}}
    if server.transport == "sse":
        found["transport"] = "sse"
    if server.idle_timeout is not None:
        found["idle_timeout_seconds"] = float(server.idle_timeout)
    if server.max_lifetime is not None:
        found["max_lifetime_seconds"] = float(server.max_lifetime)
    if server.ca_file or not server.ssl_verify:
        found["ssl_verify"] = server.ca_file or False
    if server.client_key_password:
        found["client_cert"] = [server.client_cert, found.pop("client_key"), server.client_key_password]
    return found


def servers(agent: HermesSpec) -> dict[str, Mapping[str, Any]]:
    """Return all servers as Hermes' settings, also those that are written in Hermes' own form under ``settings``."""
    own = agent.settings.get("mcp_servers")
    plain = {str(name): each for name, each in own.items() if _usable(each)} if isinstance(own, dict) else {}
    return {**plain, **{name: settings(server) for name, server in agent.mcp_servers.items()}}


def _usable(server: Any) -> bool:
    """Return whether a server in Hermes' own form has values of the types that Hermes can use."""
    types = {"command": str, "url": str, "args": list, "env": dict}
    return isinstance(server, dict) and all(isinstance(server.get(key) or kind(), kind) for key, kind in types.items())


def enabled(server: Mapping[str, Any]) -> bool:
    """Return whether Hermes would start the server."""
    return str(server.get("enabled", True)).strip().lower() not in ("false", "0", "no", "off")


def _written(value: Any) -> Any:
    """Return values as Hermes reads them: durations as seconds, and nothing that is not set."""
    match value:
        case dict():
            return {key: _written(each) for key, each in value.items() if each is not None}
        case Duration():
            return float(value)
        case _:
            return value


# Programs that fetch packages when a server starts: the hosts, and the variables that name others.
_FETCHING: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "npx": (("registry.npmjs.org",), ("NPM_CONFIG_REGISTRY", "npm_config_registry")),
    "uvx": (("pypi.org", "files.pythonhosted.org"), ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX")),
}


def mistakes(agent: HermesSpec) -> Iterator[Mistake]:
    """Yield servers that could not start with the agent's other keys."""
    for name, server in servers(agent).items():
        if enabled(server) and server.get("command") in _FETCHING:
            above = () if name in agent.mcp_servers else ("settings",)
            yield from _cannot_fetch(agent, (*above, "mcp_servers", name, "command"), server)
    if agent.programs and agent.runtime.is_engine and agent.container.image:
        yield ("programs",), "does not go with container.image: an image with the agent's code has its own programs"


def _cannot_fetch(agent: HermesSpec, at: Location, server: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield a mistake if the list of egress keeps a server from the packages that it fetches when it starts."""
    listed, command = agent.network.listed, str(server["command"])
    hosts, variables = _FETCHING[command]
    # A URL in the file is always open to the agent.
    named = any(variable in (server.get("env") or {}) for variable in variables)
    if listed is None or named or "--offline" in (server.get("args") or ()):
        return
    open_hosts = {each.host for each in listed if each.port in (None, 443)}
    if closed := [host for host in hosts if host not in open_hosts]:
        yield (
            at,
            f"{command} fetches packages from {' and '.join(hosts)} when the server starts: add"
            f" {', '.join(f'{host}:443' for host in closed)} to network.egress, name your own index under env:"
            f" {{{variables[0]}: …}}, or add --offline to args",
        )


# Hermes' lines in logs/agent.log (tools/mcp_tool.py). Nothing else tells whether a server is connected.
_REGISTERED: Final = re.compile(r"MCP server '([^']+)' \(\w+\): registered (\d+) tool\(s\): ?(.*)")
# Hermes does not say whether this succeeded; it does say if it failed.
_TRIED_AGAIN: Final = re.compile(r"MCP server '([^']+)': attempting revival")
_FAILED: Final = (
    re.compile(r"Failed to connect to MCP server '([^']+)'(?: \(command=[^)]*\))?: (.*)"),
    re.compile(r"Skipping suspicious MCP server '([^']+)': (.*)"),
    re.compile(r"MCP server '([^']+)' (failed .*)"),
)
_WORDS: Final = ("MCP server '",)
_MOST_TOOLS: Final = 20  # names in the evidence


def checks(agent: HermesSpec, name: str, hermes_home: str) -> Iterator[Check]:
    """Yield a check for each enabled server: what the agent's log says since its process was started."""
    log = LogLines(f"{hermes_home}/logs/agent.log", _WORDS)
    for server, given in servers(agent).items():
        if enabled(given):
            yield Check(f"mcp.{server}", log, partial(_connected, server), _hint(name, server, given), settles=True)


def _hint(agent: str, server: str, given: Mapping[str, Any]) -> str:
    login = f"`paddock exec {agent} -- hermes mcp login {server}` logs in; " if given.get("auth") else ""
    again = f"`paddock exec {agent} -- hermes mcp test {server}` tries it again"
    return login + again + ("; logs/mcp-stderr.log in Hermes' home has its output" if given.get("command") else "")


def _connected(server: str, found: Mapping[str, Any]) -> Verdict:
    verdicts = [verdict for line in found["lines"] if (verdict := _said(str(line), server))]
    if verdicts:
        return verdicts[-1]
    if not found["whole"]:
        return Verdict(False, "the agent's log no longer has the lines of its last start", unknown=True)
    return Verdict(False, "the agent's log says nothing about it since its last start")


def _said(line: str, server: str) -> Verdict | None:
    """Return what a line of the log says about a server. The agent's account can write such lines too."""
    if (registered := _REGISTERED.search(line)) and registered[1] == server:
        return _tools(int(registered[2]), [tool for tool in registered[3].split(", ") if tool])
    if (tried := _TRIED_AGAIN.search(line)) and tried[1] == server:
        return Verdict(False, "the agent's log says that it was lost and is tried again", unknown=True)
    for pattern in _FAILED:
        if (failed := pattern.search(line)) and failed[1] == server:
            return Verdict(False, f"the agent's log says: {failed[2]}")
    return None


def _tools(number: int, names: Sequence[str]) -> Verdict:
    if number == 0:
        hint = "the server offers none, or `tools:` in the file excludes all of them"
        return Verdict(False, "the agent's log says: connected, without a tool", hint)
    more = f" and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
    return Verdict(True, f"the agent's log says: connected, {number} tool(s): {', '.join(names[:_MOST_TOOLS])}{more}")
