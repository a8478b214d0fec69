"""The checks of `verify` for MCP servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paddock.counted import counted
from paddock.recipes.checks import Check, LogLines
from paddock.recipes.hermes.mcp import enabled, servers
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Verdict

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
    some = ", ".join(names[:_MOST_TOOLS])
    return Verdict(True, f"the agent's log says: connected, {counted(number, 'tool')}: {some}{more}")
