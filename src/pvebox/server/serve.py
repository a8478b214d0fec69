"""Run a sandbox server in the foreground (`pvebox serve`)."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from pvebox.api.errors import SandboxError
from pvebox.cluster.assembly import lxc_cluster, memory_cluster
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.faults import Faults, Rule, install
from pvebox.cluster.fixture import read_fixture
from pvebox.guests.storage import StorageType
from pvebox.server.background import RUNTIME_FILE
from pvebox.server.certificates import Certificates, ensure_certificates
from pvebox.server.control import Control
from pvebox.server.http import HttpApi, ReasonProtocol
from pvebox.server.process import is_alive, write_pid_file
from pvebox.server.statedir import write_private
from pvebox.standins import model as standin_model

MODEL_FILE = "model.json"  # the port and the key of the stand-in model, which stay the same after a restart

# Seconds that running tasks get to finish when the server is stopped.
_TASK_TIMEOUT = 5.0


def serve_foreground(
    *,
    state: Path,
    runtime: str,
    port: int,
    nodes: tuple[str, ...] = ("pve",),
    fixture: Path | None = None,
    subnet: str | None = None,
    delay_401: float = 3.0,
    mmp_wait: float | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    model: bool = False,
) -> None:
    """Serve a sandbox until SIGTERM or SIGINT. `faults` are the JSON forms of the rules to start with."""
    rules = [Rule.from_json(rule) for rule in faults]
    if is_alive(state / "server.pid"):
        raise SandboxError(f"A sandbox is already running in {state}.", hint="Choose another directory with --state.")
    given = read_fixture(fixture) if fixture is not None else None
    listener = _bind(port)
    gateway: str | None
    if runtime == "memory":
        cluster = memory_cluster(state, given, nodes)
        gateway = None
    else:
        cluster, gateway = lxc_cluster(state, given, nodes, subnet, mmp_wait)
    (state / RUNTIME_FILE).write_text(f"{runtime}\n", encoding="ascii")
    certificates = ensure_certificates(state / "tls", (gateway,) if gateway else ())
    cluster.certificates = certificates.described()
    http_api = HttpApi(cluster, delay_401=delay_401)
    http_api.log = AccessLog(state / "access.log")
    active = Faults()
    for rule in rules:
        active.add(rule)
    install(http_api, active)
    key = secrets.token_urlsafe(24)
    http_api.control = Control(cluster, active, key)
    write_pid_file(state / "server.pid")
    said = ready_line(cluster, listener.getsockname()[1], certificates.ca, gateway)
    said["control"] = {"url": f"{said['url']}/control", "key": key}

    def announce() -> None:
        write_private(state / "ready.json", json.dumps(said))
        sys.stdout.write(json.dumps(said if _is_pipe() else _without_secrets(said, state)) + "\n")
        sys.stdout.flush()

    try:
        with _model(state, said["gateway"] if gateway else "127.0.0.1") if model else nullcontext() as served:
            if served:
                said["model"] = served
            _serve(http_api, certificates, listener, announce)
    finally:
        cluster.tasks.wait_for_all(_TASK_TIMEOUT)
        cluster.runtime.close()
        (state / "ready.json").unlink(missing_ok=True)
        # Remove this file last: `clean` waits for that before it deletes the directory.
        (state / "server.pid").unlink(missing_ok=True)


@contextmanager
def _model(state: Path, host: str) -> Iterator[dict[str, str]]:
    """Serve the stand-in model where containers reach it. Yields its URL, its key and its name."""
    file = state / MODEL_FILE
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    key = kept.get("key") or f"sk-{secrets.token_urlsafe(24)}"
    with ExitStack() as serving:
        try:
            url = serving.enter_context(standin_model.serve(host, kept.get("port", 0), key))
        except OSError as error:
            raise SandboxError(f"The stand-in model cannot listen on {host}: {error.strerror}.") from None
        write_private(file, json.dumps({"port": urlsplit(url).port, "key": key}))
        yield {"url": url, "key": key, "name": standin_model.MODEL}


def _is_pipe() -> bool:
    """Return whether standard output is a pipe or socket. A file would be a log, which other users may read."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _without_secrets(said: Mapping[str, Any], state: Path) -> dict[str, Any]:
    """Return the ready line with the path of a private file in place of the tokens and the control key."""
    shown = {key: value for key, value in said.items() if key not in ("tokens", "control", "model")}
    return {**shown, "secrets": str(state / "ready.json")}


def ready_line(cluster: Cluster, port: int, ca: Path, gateway: str | None) -> dict[str, Any]:
    """Return the data that a client needs to use the sandbox."""
    node = next(iter(cluster.nodes.values()))
    thin = next((s.id for s in cluster.storages.values() if s.type is StorageType.LVM_THIN), None)
    templates = [
        f"{storage.id}:{name}"
        for storage in cluster.storages.values()
        for name in cluster.runtime.files(node.name, storage.id)
        if name.startswith("vztmpl/")
    ]
    return {
        "url": f"https://127.0.0.1:{port}",
        "ca": str(ca),
        "tokens": {name: token.secret for name, token in cluster.access.tokens.items()},
        "node": node.name,
        "nodes": list(cluster.nodes),
        "storage": thin,
        "base": templates[0] if templates else None,
        "bridge": node.bridges[0] if node.bridges else None,
        "gateway": gateway or node.address,
    }


class AccessLog:
    """Writes one line per request, in the format of /var/log/pveproxy/access.log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, request: Request, response: Response) -> None:
        """Write the line for a request and its response."""
        peer = request.client.host if request.client else "-"
        user = getattr(request.state, "user", "-")
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        line = f'"{request.method} {asked} HTTP/{request.scope["http_version"]}" {response.status_code}'
        with self._path.open("a", encoding="utf-8") as log:
            now = time.strftime("%d/%m/%Y:%H:%M:%S %z")
            log.write(f"{peer} - {user} [{now}] {line} {response.headers.get('content-length', '-')}\n")


def _bind(port: int) -> socket.socket:
    """Return a bound socket. Raise a SandboxError if the port cannot be used."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Headers and body are two writes; without this the second would wait for the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise SandboxError(
            f"Port {port} cannot be used: {error.strerror}.",
            hint="Choose another port with --port; 0 means any free port.",
        ) from None
    return listener


def _serve(
    http_api: HttpApi, certificates: Certificates, listener: socket.socket, announce: Callable[[], None]
) -> None:
    """Answer requests until SIGTERM or SIGINT. Call `announce` once the server answers."""
    # An answer waits for Python's lock behind the tasks. By default a task keeps it for 5 ms.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        http_api.app(),
        http=ReasonProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        ssl_certfile=str(certificates.chain),
        ssl_keyfile=str(certificates.key),
        timeout_graceful_shutdown=2,
    )
    asyncio.run(_announced(uvicorn.Server(config), listener, announce))


async def _announced(server: uvicorn.Server, listener: socket.socket, announce: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, _end, server)
    task = asyncio.create_task(_run(server, listener))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    if not task.done():
        announce()
    await task


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    # Server.serve() would install its own signal handlers and raise the signal again at the end.
    if not server.config.loaded:
        server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    if server.should_exit:
        return
    await server.main_loop()
    await server.shutdown(sockets=[listener])


def _end(server: uvicorn.Server) -> None:
    server.should_exit = True
