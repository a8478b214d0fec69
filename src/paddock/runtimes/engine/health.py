"""The health command of a container. The engine runs it and shows its result; Paddock does not wait for it."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Any, Final

from paddock.recipes.workload import Command, Health, OpenPort, Page

_TIMES: Final = {"interval": "30s", "timeout": "10s", "start_period": "60s"}
_PROGRAM: Final = "loopback.py"


def options(path: str) -> list[str]:
    """Return the engine's options that set the script at this path as health command."""
    times = [word for name, time in _TIMES.items() for word in (f"--health-{name.replace('_', '-')}", time)]
    return ["--health-cmd", f"/bin/sh {path}", *times]


def composed(path: str) -> dict[str, Any]:
    """Return the same settings for a compose file."""
    return {"test": ["CMD", "/bin/sh", path], **_TIMES}


def files(health: Health) -> dict[str, str]:
    """Return the script ``health`` for a bundle, which exits with 0 if the agent is healthy, and its program."""
    match health:
        case Page(url, status):
            return {"health": _asks(url, str(status)), _PROGRAM: _program()}
        case OpenPort(port):
            return {"health": _asks(str(port)), _PROGRAM: _program()}
        case Command(argv):
            return {"health": _script(shlex.join(argv))}
        case None:
            return {"health": _script("true")}


def _asks(*words: str) -> str:
    # An image without Python cannot ask. Its agent counts as healthy while it runs.
    can_ask = "command -v python3 >/dev/null || exit 0\n"
    return _script(f'python3 -I "${{0%/*}}/{_PROGRAM}" {shlex.join(words)}', can_ask)


def _script(command: str, before: str = "") -> str:
    return f"""\
#!/bin/sh
# health: exits with 0 if the agent is healthy.
{before}exec /bin/sh "${{0%/*}}/enter" {command}
"""


def _program() -> str:
    return (resources.files("paddock.runtimes") / _PROGRAM).read_text(encoding="utf-8")
