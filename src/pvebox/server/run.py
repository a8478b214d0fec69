"""Run the HTTPS server."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn

from pvebox.api.errors import SandboxError
from pvebox.server.certificates import Certificates
from pvebox.server.http import HttpApi, ReasonProtocol


def bind(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a bound socket. Raise a SandboxError if the port cannot be used."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Headers and body are two writes; without this the second would wait for the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SandboxError(
            f"Port {port} cannot be used: {error.strerror}.",
            hint="Choose another port with --port; 0 means any free port.",
        ) from None
    return listener


def serve(http_api: HttpApi, certificates: Certificates, listener: socket.socket, announce: Callable[[], None]) -> None:
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
    asyncio.run(_serve(uvicorn.Server(config), listener, announce))


async def _serve(server: uvicorn.Server, listener: socket.socket, announce: Callable[[], None]) -> None:
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
