"""The command line `pvebox`, which is also `paddock sandbox`."""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pvebox.api.errors import SandboxError
from pvebox.console import helptext
from pvebox.console.shell import run_lines
from pvebox.runtime.probe import unable_to_run
from pvebox.server import background
from pvebox.server.clean import clean, stop_sandbox


def make_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=program,
        description=helptext.ABOUT,
        epilog=helptext.TOP.format(program=program),
        formatter_class=raw,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, words: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(
            name,
            help=words,
            description=words[0].upper() + words[1:] + ".",
            epilog=helptext.VERBS.get(name, "").format(program=program),
            formatter_class=raw,
        )
        if name != "probe":
            added.add_argument(
                "--state",
                type=Path,
                default=background.default_state(),
                help="state directory of the sandbox (default: %(default)s)",
            )
        return added

    for name, words in (("serve", "run the server in the foreground"), ("up", "start the server in the background")):
        _add_serving(verb(name, words))
    verb("down", "stop the server and the containers and remove the network; volumes and configs stay for the next up")
    verb("reset", "delete the sandbox, and start a new one with the same options if it was running")
    verb("clean", "delete the sandbox, also if its server was killed")
    verb("status", "show whether the sandbox is running, and its containers").add_argument(
        "--json", action="store_true", help="print JSON"
    )
    token = verb("token", "print an API token with its secret")
    token.add_argument("name", nargs="?", help="user@realm!name (default: the first token)")
    root = verb("root", "run a command as root on the node: pct, pveum, mkdir, chown, ls, mountpoint, echo, true")
    root.add_argument(
        "argv",
        nargs=argparse.REMAINDER,
        help="the command, for example: -- pct set 100 -mp0 /srv/x,mp=/data; '||' separates alternatives;"
        " without a command, each line of the input is one",
    )
    _add_faults(verb("fault", "make requests, tasks, containers, storages or the node fail"))
    logs = verb("logs", "print the log of the server or of a finished task")
    logs.add_argument("upid", nargs="?", help="the task's UPID (default: print the server's log)")
    verb("probe", "check whether real containers can run on this machine")
    return parser


def seconds(text: str) -> float:
    """Parse a number of seconds."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        choices=("lxc", "memory"),
        help="real LXC containers (needs root), or simulated ones (default: that of the state directory, or lxc)",
    )
    parser.add_argument(
        "--port", type=int, default=8006, help="port to listen on; 0 means any free port (default: %(default)s)"
    )
    parser.add_argument("--node", help="name of the node, for a cluster of one")
    parser.add_argument("--nodes", default="pve", help="names of the nodes, separated by commas (default: %(default)s)")
    parser.add_argument(
        "--fixture", type=Path, help="JSON file that describes the cluster: users, tokens, storages, containers"
    )
    parser.add_argument(
        "--subnet", help="IPv4 network of the containers, for example 10.77.0.0/24 (default: a free one)"
    )
    parser.add_argument(
        "--delay-401", type=float, default=3.0, metavar="SECONDS", help="delay of answers to wrong credentials"
    )
    parser.add_argument(
        "--mmp-wait",
        type=seconds,
        metavar="SECONDS",
        help="how long it takes to mount a volume that was copied while it was mounted, or was mounted when the power"
        " was cut; 0 means no wait (default: as long as the kernel waits, 42 seconds)",
    )
    parser.add_argument("--faults", type=Path, help="JSON file with a list of faults to start with")
    parser.add_argument(
        "--model",
        action="store_true",
        help="also serve a stand-in for a language model, which containers reach; the ready line has its URL and key",
    )


_FAULTS: Final = """\
faults of requests:
  answer STATUS[:MESSAGE]   answer with this status
  reset                     abort the connection
  stall MILLISECONDS        wait, then abort the connection
  slow MILLISECONDS         delay the answer
  lose [STATUS]             perform the request, but abort the connection instead of answering, or answer with a status
  fail-task [MESSAGE]       make the task that the request starts fail
  warn-task [MESSAGE]       make the task that the request starts end with a warning
  crash-task                crash the task that the request starts: it cleans nothing up, and its locks stay

faults that happen now:
  kill VMID                 kill a container
  fill STORAGE              make a storage reject allocations; undo it with empty STORAGE
  clock SECONDS             set the nodes' clock ahead of this machine's, or behind it; it shows in the Date header
  crash [SECONDS]           crash all nodes, and boot them again after some seconds (default: 2)
  lock VMID[:SECONDS]       hold the lock of a container's config, as another process of the node would (default: 30)
  offline NODE              cut a node off from the first one, which answers; undo it with online NODE.
                            Without a majority of the nodes the cluster has no quorum
  silent NODE               let the pvestatd of a node report nothing, so that its status is unknown; undo it with
                            heard NODE
  ha [SECONDS]              run the HA daemons, which carry out a request some seconds later (default: 7);
                            undo it with ha off

list prints the active faults of requests as JSON, clear [ID] removes one or all.
"""


def _add_faults(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _FAULTS
    parser.add_argument(
        "what",
        metavar="FAULT",
        help="one of the faults below, list or clear",
        choices=(
            *("list", "clear", "answer", "reset", "stall", "lose", "slow", "fail-task", "warn-task", "crash-task"),
            *("kill", "fill", "empty", "clock", "crash", "lock", "offline", "online", "silent", "heard", "ha"),
        ),
    )
    parser.add_argument(
        "value",
        nargs="?",
        default="",
        help="depends on the fault: status[:message], milliseconds, message, VMID, storage, seconds or node",
    )
    parser.add_argument("--method", default="*", help="HTTP method of the requests that fail (default: all)")
    parser.add_argument(
        "--path",
        default="*",
        help="pattern for the paths of the requests that fail, for example /nodes/*/lxc (default: all)",
    )
    parser.add_argument(
        "--count", type=int, default=1, help="how many requests fail; 0 means all (default: %(default)s)"
    )


def run() -> None:
    """Run the command of this process, and exit."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str], program: str = "pvebox") -> int:
    """Run one command and return its exit code. `program` is how the user called it."""
    arguments = make_parser(program).parse_args(argv)
    arguments.program = program
    if hasattr(arguments, "state"):
        arguments.state = arguments.state.expanduser().absolute()
    try:
        return _VERBS[arguments.verb](arguments)
    except SandboxError as error:
        said = f"{error.message}\n" + (f"{error.hint}\n" if error.hint else "")
        # Messages name commands as `pvebox VERB`.
        sys.stderr.write(said.replace("`pvebox ", f"`{program} "))
        return 1
    except PermissionError as error:
        sys.stderr.write(f"No permission for {error.filename}.\nUse the account that created the sandbox, or root.\n")
        return 1


def _print(data: Any) -> None:
    sys.stdout.write(json.dumps(data) + "\n")


def _serve(arguments: argparse.Namespace) -> int:
    # Imported here because only `serve` needs starlette and uvicorn, which are an optional extra.
    try:
        from pvebox.server.serve import serve_foreground
    except ModuleNotFoundError as error:
        raise SandboxError(
            f"The sandbox needs the Python package {error.name}.",
            hint="It comes with an extra. Run this in a clone of the repository: pip install '.[sandbox]'",
        ) from None
    names = arguments.node or arguments.nodes
    serve_foreground(
        state=arguments.state,
        runtime=background.runtime_of(arguments.state, arguments.runtime),
        port=arguments.port,
        nodes=tuple(name.strip() for name in names.split(",") if name.strip()),
        fixture=arguments.fixture,
        subnet=arguments.subnet,
        delay_401=arguments.delay_401,
        mmp_wait=arguments.mmp_wait,
        faults=json.loads(arguments.faults.read_text(encoding="utf-8")) if arguments.faults else [],
        model=arguments.model,
    )
    return 0


def _up(arguments: argparse.Namespace) -> int:
    kept = background.options_of(arguments.state)
    options = kept if kept and not _has_options(arguments) else _options(arguments)
    _print_ready(arguments, background.up(arguments.state, options))
    return 0


def _has_options(arguments: argparse.Namespace) -> bool:
    """Return whether `up` was called with an option other than --state."""
    bare = make_parser(arguments.program).parse_args(["up"])
    return any(getattr(arguments, name) != value for name, value in vars(bare).items() if name != "state")


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options for `serve`."""
    runtime = background.runtime_of(arguments.state, arguments.runtime)
    options = ["--runtime", runtime, "--port", str(arguments.port), "--nodes"]
    options += [arguments.node or arguments.nodes, "--delay-401", str(arguments.delay_401)]
    for name in ("fixture", "faults"):
        if getattr(arguments, name) is not None:
            options += [f"--{name}", str(getattr(arguments, name).absolute())]
    if arguments.subnet:
        options += ["--subnet", arguments.subnet]
    if arguments.mmp_wait is not None:
        options += ["--mmp-wait", str(arguments.mmp_wait)]
    if arguments.model:
        options.append("--model")
    return options


def _print_ready(arguments: argparse.Namespace, ready: Mapping[str, Any]) -> None:
    """Print the ready line or, on a terminal, a summary without secrets."""
    if not sys.stdout.isatty():
        _print(ready)
        return
    named = "" if arguments.state == background.default_state() else f" --state {arguments.state}"
    sys.stdout.write(
        helptext.READY.format(
            program=arguments.program,
            state=named,
            tokens="\n  ".join(ready["tokens"]),
            **{key: ready[key] for key in ("url", "ca", "node", "storage", "base")},
        )
    )


def _down(arguments: argparse.Namespace) -> int:
    stop_sandbox(arguments.state)
    return 0


def _reset(arguments: argparse.Namespace) -> int:
    ready = background.reset(arguments.state)
    if ready is not None:
        _print_ready(arguments, ready)
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    clean(arguments.state)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    ready = background.ready(arguments.state)
    if ready is None:
        sys.stdout.write("{}\n" if arguments.json else f"No sandbox is running in {arguments.state}.\n")
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
        raise SandboxError(f"No sandbox is running in {arguments.state}.", hint="Start one with `pvebox up`.")
    # The ready line lacks tokens that root has created since; the cluster's file has them.
    cluster = json.loads((arguments.state / "cluster.json").read_text(encoding="utf-8"))
    tokens = {name: entry["secret"] for name, entry in cluster["tokens"].items()}
    name = arguments.name or next(iter(tokens), None)
    if name not in tokens:
        raise SandboxError(f"There is no token {name}.", hint=f"The tokens are {', '.join(tokens)}.")
    sys.stdout.write(f"{name}={tokens[name]}\n")
    return 0


def _root(arguments: argparse.Namespace) -> int:
    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    if not argv:
        return run_lines(sys.stdin, lambda words: _run_as_root(arguments.state, words, {}))
    if argv[:2] == ["pct", "exec"]:
        # As on a node, the program gets the input, the output and the terminal of the caller.
        attach = background.ask(arguments.state, "POST", "attach", {"argv": argv})["argv"]
        if attach:
            os.execvp(attach[0], attach)  # noqa: S606 - a list, no shell
    # The server may run as root, so the file to push is read here, with the permissions of the caller.
    files = {word: base64.b64encode(Path(word).read_bytes()).decode() for word in _pushed(argv)}
    return _run_as_root(arguments.state, argv, files)


def _run_as_root(state: Path, argv: Sequence[str], files: Mapping[str, str]) -> int:
    """Run a command on the node, print its output and return its exit code."""
    said = background.ask(state, "POST", "root", {"argv": argv, "files": files})
    sys.stdout.write(said["out"])
    sys.stderr.write(said["err"])
    return int(said["code"])


def _pushed(argv: Sequence[str]) -> list[str]:
    """Return the local file that a `pct push` command names, or an empty list."""
    return [word for word in argv[3:4] if [*argv[:2]] == ["pct", "push"] and Path(word).is_file()]


_UNDOES: Final = {"empty": "fill", "online": "offline", "heard": "silent"}


def _fault(arguments: argparse.Namespace) -> int:
    ask, state, value = background.ask, arguments.state, arguments.value
    match arguments.what:
        case "list":
            _print(ask(state, "GET", "faults"))
        case "clear":
            ask(state, "DELETE", f"faults/{value}" if value else "faults")
        case "kill" | "fill" | "offline" | "silent" as what:
            ask(state, "POST", f"{what}/{value}")
        case "empty" | "online" | "heard" as what:
            ask(state, "DELETE", f"{_UNDOES[what]}/{value}")
        case "clock":
            ask(state, "POST", "clock", {"seconds": float(value or 0)})
        case "crash":
            ask(state, "POST", "crash", {"seconds": float(value or 2)})
        case "lock":
            vmid, _, seconds = value.partition(":")
            ask(state, "POST", f"lock/{vmid}", {"seconds": float(seconds or 30)})
        case "ha" if value == "off":
            ask(state, "DELETE", "ha")
        case "ha":
            ask(state, "POST", "ha", {"seconds": float(value or 7)})
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
    raise SandboxError(f"There is no finished task {arguments.upid}.")


def _probe(arguments: argparse.Namespace) -> int:
    reason = unable_to_run()
    sys.stdout.write((reason or "Real containers can run on this machine.") + "\n")
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
