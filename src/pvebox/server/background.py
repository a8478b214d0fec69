"""Start, query and reset a sandbox server that runs in the background."""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
from collections.abc import Sequence
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pvebox.api.errors import SandboxError
from pvebox.server import statedir
from pvebox.server.clean import clean
from pvebox.server.process import is_alive, spawn

KEY_HEADER: Final = "x-sandbox-key"
RUNTIME_FILE: Final = "runtime"
_OPTIONS_FILE: Final = "up.json"
_READY_WITHIN: Final = 600.0


def default_state() -> Path:
    """Return the default state directory."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home) / "pvebox"


def runtime_of(state: Path, asked: str | None) -> str:
    """Return the runtime that a sandbox was created with, else the given runtime, else lxc."""
    try:
        created = (state / RUNTIME_FILE).read_text(encoding="ascii").strip()
    except OSError:
        return asked or "lxc"
    if asked not in (None, created):
        raise SandboxError(
            f"The sandbox in {state} was created with --runtime {created}.",
            hint="Delete it with `pvebox clean`, or choose another directory with --state.",
        )
    return created


def options_of(state: Path) -> list[str] | None:
    """Return the options with which the sandbox was started last, or None if it never was."""
    try:
        kept: list[str] = json.loads((state / _OPTIONS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept


def ready(state: Path) -> dict[str, Any] | None:
    """Return the ready line of the running server, or None if no server is ready."""
    if not is_alive(state / "server.pid"):
        return None
    try:
        said: dict[str, Any] = json.loads((state / "ready.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said


def up(state: Path, options: Sequence[str]) -> dict[str, Any]:
    """Start a server in the background, unless one is running already, and return its ready line."""
    running = ready(state)
    if running is not None:
        return running
    statedir.prepare(state)
    (state / _OPTIONS_FILE).write_text(json.dumps(list(options)), encoding="utf-8")
    log = state / "server.log"
    with statedir.append_private(log) as errors:
        begins_at = errors.tell()
        # Standard output is not logged: the ready line holds tokens and the control key.
        server = spawn(
            *(sys.executable, "-m", "pvebox", "serve", "--state", str(state), *options),
            errors=errors,
            detached=True,
        )
    until = time.monotonic() + _READY_WITHIN
    while time.monotonic() < until:
        running = ready(state)
        if running is not None:
            return running
        if server.poll() is not None:
            with log.open("rb") as said:
                said.seek(begins_at)
                words = said.read().decode(errors="replace").strip()
            raise SandboxError(words or f"The sandbox server exited during startup; see {log}.")
        time.sleep(0.05)
    raise SandboxError(f"The sandbox server was not ready after {_READY_WITHIN:.0f} s; see {log}.")


def reset(state: Path) -> dict[str, Any] | None:
    """Delete the sandbox. If its server was running, start a new sandbox with the same options."""
    options = options_of(state) if ready(state) is not None else None
    clean(state)
    return up(state, options) if options is not None else None


def ask(state: Path, method: str, path: str, body: Any = None) -> Any:
    """Send a request to the control endpoint of the running server and return the answer."""
    said = ready(state)
    if said is None:
        raise SandboxError(f"No sandbox is running in {state}.", hint="Start one with `pvebox up`.")
    where = urlsplit(said["control"]["url"])
    trust = ssl.create_default_context(cafile=said["ca"])
    connection = HTTPSConnection(str(where.hostname), where.port, context=trust, timeout=700)
    headers = {KEY_HEADER: said["control"]["key"], "Content-Type": "application/json"}
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, f"{where.path}/{path}", content, headers)
        answer = connection.getresponse()
        data = json.load(answer)
    except (OSError, HTTPException, ValueError) as error:
        raise SandboxError(f"The sandbox in {state} does not answer: {error}.") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise SandboxError(data.get("error", f"status {answer.status}"), hint=data.get("hint", ""))
    return data
