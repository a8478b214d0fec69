"""A sandbox in the background: started, asked, reset and ended from the command line."""

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

from . import directory, private
from .clean import clean, let_go
from .errors import SandboxError
from .process import is_alive, spawn

KEY_HEADER: Final = "x-sandbox-key"
_READY_WITHIN: Final = 600.0


def default_state() -> Path:
    """The state directory used when none is named."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home) / "paddock" / "sandbox"


def is_serving(state: Path) -> bool:
    """Whether a server lives on a state directory."""
    return is_alive(state / "server.pid")


def ready(state: Path) -> dict[str, Any] | None:
    """What a running server said when it was ready, or None if there is none."""
    if not is_serving(state):
        return None
    try:
        said: dict[str, Any] = json.loads((state / "ready.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said


def up(state: Path, options: Sequence[str]) -> dict[str, Any]:
    """Start a server in the background, unless one runs, and return its ready line."""
    running = ready(state)
    if running is not None:
        return running
    directory.make(state)
    (state / "up.json").write_text(json.dumps(list(options)), encoding="utf-8")
    log = state / "server.log"
    with private.appending(log) as errors:
        begins_at = errors.tell()
        # Not what it prints: that is the ready line, with tokens and the control key, which `ready` reads.
        server = spawn(
            *(sys.executable, "-m", "paddock.sandbox", "serve", "--state", str(state), *options),
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
            raise SandboxError(words or f"The sandbox ended at once; see {log}.")
        time.sleep(0.05)
    raise SandboxError(f"The sandbox is not ready after {_READY_WITHIN:.0f} s; see {log}.")


def down(state: Path) -> None:
    """End the server, the containers and the network; volumes and configs stay for the next time."""
    let_go(state)


def reset(state: Path) -> dict[str, Any] | None:
    """Forget everything; a server that ran comes back with its options, as new."""
    options: list[str] | None = None
    if ready(state) is not None and (state / "up.json").exists():
        options = json.loads((state / "up.json").read_text(encoding="utf-8"))
    clean(state)
    return up(state, options) if options is not None else None


def ask(state: Path, method: str, path: str, body: Any = None) -> Any:
    """The answer of a running server's control endpoint."""
    said = ready(state)
    if said is None:
        raise SandboxError(f"No sandbox runs on {state}.", hint="Start one with `up`.")
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
        raise SandboxError(f"The sandbox on {state} does not answer: {error}.") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise SandboxError(data.get("error", f"status {answer.status}"), hint=data.get("hint", ""))
    return data
