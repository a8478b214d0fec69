"""What all stand-in servers share: to serve beside a test, or by themselves until they are asked to end."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import ThreadingHTTPServer


class StandIn(ThreadingHTTPServer):
    """A server that ends when it should, whatever its clients still wait for."""

    daemon_threads = True


@contextlib.contextmanager
def serving(server: StandIn) -> Iterator[str]:
    """Serve in the background while the context is open; gives the URL."""
    host, port = str(server.server_address[0]), server.server_address[1]
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.shutdown()
            thread.join()


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """The options that every stand-in has."""
    options = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    options.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    options.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    return options


def run(
    options: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    serve: Callable[[argparse.Namespace], contextlib.AbstractContextManager[str]],
) -> int:
    """Serve until a signal says to end; prints the URL as JSON."""
    args = options.parse_args(argv)
    # Blocked before the server's threads exist: they inherit it, and sigwait below is the one receiver.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        with serve(args) as url:
            print(json.dumps({"url": url}), flush=True)
            signal.sigwait(signals)
    except OSError as error:
        print(f"cannot listen on {args.host}:{args.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
