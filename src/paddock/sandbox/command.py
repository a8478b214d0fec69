"""The sandbox's command line."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import background
from .clean import clean
from .errors import SandboxError
from .probe import unable_to_run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paddock sandbox", description="A Proxmox VE node in a box, on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, words: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
        if name != "probe":
            added.add_argument(
                "--state",
                type=Path,
                default=background.default_state(),
                help="directory that holds everything",
            )
        return added

    for name, words in (("serve", "run in the foreground"), ("up", "start in the background")):
        _add_serving(verb(name, words))
    verb("down", "end containers, mounts and network; what is stored stays for the next up")
    verb("reset", "forget everything, and start again as new if it was up")
    verb("clean", "remove everything, also what a killed server left")
    verb("status", "tell what runs").add_argument("--json", action="store_true")
    token = verb("token", "print a token as clients send it")
    token.add_argument("name", nargs="?", help="user@realm!name; the first without one")
    root = verb("root", "play root at the node's console: pct, pveum, mkdir, chown, ls, mountpoint")
    root.add_argument("argv", nargs=argparse.REMAINDER, help="-- pct set 100 -mp0 /srv/x,mp=/data")
    _add_faults(verb("fault", "make requests, tasks or the node go wrong"))
    logs = verb("logs", "print the server's log, or a task's")
    logs.add_argument("upid", nargs="?")
    verb("probe", "tell whether real containers can run here")
    return parser


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runtime", choices=("lxc", "memory"), default="lxc", help="real containers or none")
    parser.add_argument("--port", type=int, default=8006, help="0 chooses a free one")
    parser.add_argument("--node", help="name of the only node")
    parser.add_argument("--nodes", default="pve", help="names of several, with commas")
    parser.add_argument("--fixture", type=Path, help="JSON with users, tokens, storages, a state")
    parser.add_argument("--subnet", help="network for the containers, for example 10.77.0.0/24")
    parser.add_argument("--delay-401", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--faults", type=Path, help="JSON with a list of faults")


def _add_faults(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=(
            *("list", "clear", "answer", "reset", "stall", "lose", "slow", "fail-task", "warn-task"),
            *("kill", "fill", "empty", "crash"),
        ),
    )
    parser.add_argument("value", nargs="?", default="", help="status[:words], milliseconds, words, VMID, storage")
    parser.add_argument("--method", default="*")
    parser.add_argument("--path", default="*", help="pattern, for example /nodes/*/lxc")
    parser.add_argument("--count", type=int, default=1, help="how often; 0 is always")


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    if hasattr(arguments, "state"):
        arguments.state = arguments.state.expanduser().absolute()
    try:
        return _VERBS[arguments.verb](arguments)
    except SandboxError as error:
        sys.stderr.write(f"{error.message}\n" + (f"{error.hint}\n" if error.hint else ""))
        return 1
    except PermissionError as error:
        sys.stderr.write(f"{error.filename} belongs to somebody else.\nUse the account that made it, or root.\n")
        return 1


def _print(data: Any) -> None:
    sys.stdout.write(json.dumps(data) + "\n")


def _serve(arguments: argparse.Namespace) -> int:
    # Not needed by the other verbs, and starlette and uvicorn are an extra.
    try:
        from .faults import Rule
        from .serve import serve_foreground
    except ModuleNotFoundError as error:
        raise SandboxError(
            f"The sandbox needs {error.name}.", hint="Install it with pip install 'paddock[sandbox]'."
        ) from None
    names = arguments.node or arguments.nodes
    rules = json.loads(arguments.faults.read_text(encoding="utf-8")) if arguments.faults else []
    serve_foreground(
        state=arguments.state,
        runtime=arguments.runtime,
        port=arguments.port,
        nodes=tuple(name.strip() for name in names.split(",") if name.strip()),
        fixture=arguments.fixture,
        subnet=arguments.subnet,
        delay_401=arguments.delay_401,
        faults=[Rule.from_json(rule) for rule in rules],
    )
    return 0


def _up(arguments: argparse.Namespace) -> int:
    options = ["--runtime", arguments.runtime, "--port", str(arguments.port), "--nodes"]
    options += [arguments.node or arguments.nodes, "--delay-401", str(arguments.delay_401)]
    for name in ("fixture", "faults"):
        if getattr(arguments, name) is not None:
            options += [f"--{name}", str(getattr(arguments, name).absolute())]
    if arguments.subnet:
        options += ["--subnet", arguments.subnet]
    _print(background.up(arguments.state, options))
    return 0


def _down(arguments: argparse.Namespace) -> int:
    background.down(arguments.state)
    return 0


def _reset(arguments: argparse.Namespace) -> int:
    ready = background.reset(arguments.state)
    if ready is not None:
        _print(ready)
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    clean(arguments.state)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    ready = background.ready(arguments.state)
    if ready is None:
        sys.stdout.write("{}\n" if arguments.json else f"No sandbox runs on {arguments.state}.\n")
        return 1
    status = background.ask(arguments.state, "GET", "status")
    if arguments.json:
        _print({**ready, **status})
        return 0
    sys.stdout.write(f"{ready['url']}  nodes {', '.join(status['nodes'])}\n")
    for vmid, running in status["containers"].items():
        sys.stdout.write(f"{vmid}  {'running' if running else 'stopped'}\n")
    return 0


def _token(arguments: argparse.Namespace) -> int:
    ready = background.ready(arguments.state)
    if ready is None:
        raise SandboxError(f"No sandbox runs on {arguments.state}.", hint="Start one with `up`.")
    # Tokens that root made meanwhile are in the cluster's file, not in the ready line.
    cluster = json.loads((arguments.state / "cluster.json").read_text(encoding="utf-8"))
    tokens = {name: entry["secret"] for name, entry in cluster["tokens"].items()}
    name = arguments.name or next(iter(tokens), None)
    if name not in tokens:
        raise SandboxError(f"There is no token {name}.", hint=f"There are {', '.join(tokens)}.")
    sys.stdout.write(f"{name}={tokens[name]}\n")
    return 0


def _root(arguments: argparse.Namespace) -> int:
    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    # The server is root's: what a person pushes is read with the person's own rights.
    files = {word: base64.b64encode(Path(word).read_bytes()).decode() for word in _pushed(argv)}
    said = background.ask(arguments.state, "POST", "root", {"argv": argv, "files": files})
    sys.stdout.write(said["out"])
    sys.stderr.write(said["err"])
    return int(said["code"])


def _pushed(argv: Sequence[str]) -> list[str]:
    """The file of this machine that a `pct push` names, if it names one."""
    return [word for word in argv[3:4] if [*argv[:2]] == ["pct", "push"] and Path(word).is_file()]


def _fault(arguments: argparse.Namespace) -> int:
    ask, state, value = background.ask, arguments.state, arguments.value
    match arguments.what:
        case "list":
            _print(ask(state, "GET", "faults"))
        case "clear":
            ask(state, "DELETE", f"faults/{value}" if value else "faults")
        case "kill":
            ask(state, "POST", f"kill/{value}")
        case "fill":
            ask(state, "POST", f"fill/{value}")
        case "empty":
            ask(state, "DELETE", f"fill/{value}")
        case "crash":
            ask(state, "POST", "crash", {"seconds": float(value or 2)})
        case kind:
            rule = {"kind": kind, "value": value, "method": arguments.method, "path": arguments.path}
            _print(ask(state, "POST", "faults", {**rule, "count": arguments.count}))
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    if arguments.upid is None:
        log = arguments.state / "server.log"
        sys.stdout.write(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        return 0
    for line in (arguments.state / "tasks.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n"):
        entry = json.loads(line)
        if entry["upid"] == arguments.upid and "log" in entry:
            sys.stdout.write("".join(f"{said}\n" for said in entry["log"]))
            return 0
    raise SandboxError(f"There is no ended task {arguments.upid}.")


def _probe(arguments: argparse.Namespace) -> int:
    reason = unable_to_run()
    sys.stdout.write((reason or "Real containers can run here.") + "\n")
    return 0 if reason is None else 1


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "up": _up,
    "down": _down,
    "reset": _reset,
    "clean": _clean,
    "status": _status,
    "token": _token,
    "root": _root,
    "fault": _fault,
    "logs": _logs,
    "probe": _probe,
}
