"""The agent's health as a script in its container, so that the engine can tell it to whoever asks the engine."""

from __future__ import annotations

import shlex
from typing import Any, Final

from paddock.recipes.workload import Command, OpenPort, Page, Workload

# What Paddock itself asks does not wait for it.
_TIMES: Final = {"interval": "30s", "timeout": "10s", "start_period": "60s"}

_ASKED: Final = """\
import sys, urllib.error, urllib.request
url, status = sys.argv[1:]
try:
    found = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5).status
except urllib.error.HTTPError as error:
    found = error.code
sys.exit(str(found) != status and f"{url} answered {found}")
"""
_CONNECTED: Final = """\
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
"""


def options(path: str) -> list[str]:
    """What an engine is told about the script at this path."""
    times = [word for name, time in _TIMES.items() for word in (f"--health-{name.replace('_', '-')}", time)]
    return ["--health-cmd", f"/bin/sh {path}", *times]


def composed(path: str) -> dict[str, Any]:
    """The same in a compose file."""
    return {"test": ["CMD", "/bin/sh", path], **_TIMES}


def script(workload: Workload) -> str:
    """A program that ends with 0 if the agent is well; where nothing says otherwise, an agent that runs is."""
    match workload.health:
        case Page(url, status):
            argv = ["python3", "-I", "-c", _ASKED, url, str(status)]
        case OpenPort(port):
            argv = ["python3", "-I", "-c", _CONNECTED, str(port)]
        case Command(given):
            argv = list(given)
        case None:
            argv = ["true"]
    can_ask = "" if isinstance(workload.health, Command) else f"command -v {argv[0]} >/dev/null || exit 0\n"
    return f"""\
#!/bin/sh
# health: whether the agent is well; without the means to ask, it is as long as it runs.
{can_ask}exec /bin/sh "${{0%/*}}/enter" {shlex.join(argv)}
"""
