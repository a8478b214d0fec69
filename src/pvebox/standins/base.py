"""The base of the stand-in servers: run one in the background of a test, or as a program until a signal."""

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
    """An HTTP server that does not wait for open requests when it stops."""

    daemon_threads = True


@contextlib.contextmanager
def serving(server: StandIn) -> Iterator[str]:
    """Serve in the background while the context is open. Yields the URL."""
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
    """Return a parser with the options that all stand-in servers have."""
    options = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    options.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    options.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    return options


def run(
    options: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    serve: Callable[[argparse.Namespace], contextlib.AbstractContextManager[str]],
) -> int:
    """Print the URL as JSON and serve until SIGINT or SIGTERM. Return the exit code."""
    args = options.parse_args(argv)
    # Block the signals before the server's threads start: they inherit the mask, so only sigwait receives them.
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
