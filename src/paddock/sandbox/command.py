"""The sandbox's command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import SandboxError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paddock sandbox", description="A Proxmox VE node in a box, on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="run in the foreground")
    serve.add_argument("--runtime", choices=("lxc", "memory"), default="lxc")
    serve.add_argument("--state", type=Path, required=True, help="directory that holds everything")
    serve.add_argument("--port", type=int, default=8006, help="0 chooses a free one")
    serve.add_argument("--node", default=None, help="name of the only node")
    serve.add_argument("--nodes", default="pve", help="names of several, with commas")
    serve.add_argument("--fixture", type=Path, help="JSON with users, tokens, storages, state")
    serve.add_argument("--subnet", help="network for the containers, for example 10.77.0.0/24")
    serve.add_argument("--delay-401", type=float, default=3.0, metavar="SECONDS")
    clean = verbs.add_parser("clean", help="remove all containers, mounts and networks of a state directory")
    clean.add_argument("--state", type=Path, required=True)
    verbs.add_parser("probe", help="tell whether real containers can run here")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return _VERBS[arguments.verb](arguments)
    except SandboxError as error:
        sys.stderr.write(f"{error.message}\n" + (f"{error.hint}\n" if error.hint else ""))
        return 1


def _serve(arguments: argparse.Namespace) -> int:
    from .serve import serve_foreground

    names = arguments.node or arguments.nodes
    serve_foreground(
        state=arguments.state.absolute(),
        runtime=arguments.runtime,
        port=arguments.port,
        nodes=tuple(name.strip() for name in names.split(",") if name.strip()),
        fixture=arguments.fixture,
        subnet=arguments.subnet,
        delay_401=arguments.delay_401,
    )
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    from .clean import clean

    clean(arguments.state.absolute())
    return 0


def _probe(arguments: argparse.Namespace) -> int:
    from .probe import unable_to_run

    reason = unable_to_run()
    sys.stdout.write((reason or "Real containers can run here.") + "\n")
    return 0 if reason is None else 1


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {"serve": _serve, "clean": _clean, "probe": _probe}
