"""The node's root console: pct, pveum and a few file commands."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pvebox.access.accounts import ROOT
from pvebox.api.errors import ApiError
from pvebox.api.routes import api
from pvebox.cluster.cluster import Cluster
from pvebox.console import pveum
from pvebox.console.shell import CommandResult, UsageError, parse_options
from pvebox.runtime.confined import descend, parts_of


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


def _words(rest: list[str]) -> list[str]:
    return rest[1:] if rest[:1] == ["--"] else rest


def _program(rest: list[str]) -> list[str]:
    if not _words(rest):
        raise UsageError("pct exec: missing command")
    return _words(rest)


class Console:
    """Runs commands as root of a node: the few that Paddock's console steps and the tests need."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._commands: dict[str, Callable[[list[str]], CommandResult]] = {
            "pveum": lambda rest: pveum.run(cluster, rest),
            "mkdir": self._mkdir,
            "chown": self._chown,
            "ls": self._ls,
            "mountpoint": self._mountpoint,
            "echo": lambda rest: CommandResult(out=f"{' '.join(rest)}\n"),
            "true": lambda rest: CommandResult(),
            "ha-manager": self._ha,
        }

    def run(self, argv: Sequence[str], given: Mapping[str, bytes] | None = None) -> CommandResult:
        """Run a command as root of the node. `given` holds the contents of the caller's files that it names.

        A command after `||` runs if the one before it fails, as in a shell.
        """
        if "||" in argv:
            at = list(argv).index("||")
            first = self.run(argv[:at], given)
            if first.code == 0:
                return first
            second = self.run(argv[at + 1 :], given)
            return CommandResult(second.code, first.out + second.out, first.err + second.err)
        if not argv or argv[0] not in (*self._commands, "pct"):
            known = ", ".join(sorted([*self._commands, "pct"]))
            return CommandResult(127, err=f"{argv[0] if argv else ''}: command not found; the commands are {known}\n")
        try:
            if argv[0] == "pct":
                return self._pct(list(argv[1:]), given or {})
            return self._commands[argv[0]](list(argv[1:]))
        except ApiError as error:
            listing = "".join(f"{key}: {words}\n" for key, words in error.errors.items())
            return CommandResult(255, err=f"{error.status} {error.message}{listing}" if listing else error.message)
        except UsageError as error:
            return CommandResult(2, err=f"{error}\n")
        except OSError as error:
            return CommandResult(1, err=f"{argv[0]}: {error.strerror}: {error.filename}\n")

    def _call(self, verb: str, path: str, **params: Any) -> Any:
        return api.perform(self._cluster, ROOT, verb, path, params)

    def _wait(self, upid: str) -> CommandResult:
        task = self._cluster.tasks.wait(upid, timeout=300)
        lines = [line for line in task.log if not line.startswith("TASK ")]
        out = "".join(f"{line}\n" for line in lines)
        ok = task.exitstatus == "OK" or str(task.exitstatus).startswith("WARNINGS")
        return CommandResult(0, out) if ok else CommandResult(255, out, f"{task.exitstatus}\n")

    def _pct(self, rest: list[str], given: Mapping[str, bytes]) -> CommandResult:
        if not rest:
            raise UsageError("pct: missing command")
        verb, rest = rest[0], rest[1:]
        if verb == "list":
            return CommandResult(out=self._list())
        if not rest or not rest[0].isdecimal():
            raise UsageError(f"pct {verb}: missing VMID")
        vmid, rest = int(rest[0]), rest[1:]
        node = self._cluster.configs.node_of(vmid) or next(iter(self._cluster.nodes))
        path = f"/nodes/{node}/lxc/{vmid}"
        match verb:
            case "set":
                self._call("PUT", f"{path}/config", **parse_options(rest))
                return CommandResult()
            case "config":
                shown = self._call("GET", f"{path}/config")
                lines = (f"{key}: {value}\n" for key, value in sorted(shown.items()) if key != "digest")
                return CommandResult(out="".join(lines))
            case "status":
                return CommandResult(out=f"status: {self._call('GET', f'{path}/status/current')['status']}\n")
            case "start" | "stop" | "shutdown" | "reboot":
                return self._wait(self._call("POST", f"{path}/status/{verb}", **parse_options(rest)))
            case "destroy":
                return self._wait(self._call("DELETE", path, **parse_options(rest)))
            case "migrate" if rest:
                return self._wait(self._call("POST", f"{path}/migrate", target=rest[0], **parse_options(rest[1:])))
            case "unlock":
                self._cluster.configs.unlock(vmid, node)
                return CommandResult()
            case "exec":
                return self._exec(vmid, node, rest)
            case "push":
                return self._push(vmid, node, rest, given)
        raise UsageError(f"pct: unknown command '{verb}'")

    def _ha(self, rest: list[str]) -> CommandResult:
        """Add, change or remove an HA resource."""
        match rest:
            case ["add", sid, *options]:
                self._call("POST", "/cluster/ha/resources", sid=sid, **parse_options(options))
            case ["set", sid, *options]:
                self._call("PUT", f"/cluster/ha/resources/{sid}", **parse_options(options))
            case ["remove", sid]:
                self._call("DELETE", f"/cluster/ha/resources/{sid}")
            case _:
                raise UsageError("ha-manager: expected add, set or remove, and a resource such as ct:100")
        return CommandResult()

    def _list(self) -> str:
        lines = ["VMID       Status     Lock         Name\n"]
        for vmid in self._cluster.configs.vmids():
            config = self._cluster.configs.load(vmid, self._cluster.configs.node_of(vmid) or "")
            status = "running" if self._cluster.runtime.containers.running(vmid) else "stopped"
            name = config.text("hostname") or ""
            lines.append(f"{vmid:<10} {status:<10} {config.text('lock') or '':<12} {name}\n")
        return "".join(lines)

    def _exec(self, vmid: int, node: str, rest: list[str]) -> CommandResult:
        self._cluster.configs.load(vmid, node)
        if not self._cluster.runtime.containers.running(vmid):
            return CommandResult(255, err=f"container '{vmid}' not running!\n")
        return CommandResult(*self._cluster.runtime.containers.execute(vmid, _program(rest), None))

    def attach_command(self, argv: Sequence[str]) -> list[str] | None:
        """Return the command that is a `pct exec` of a running container; None for all other commands."""
        match list(argv):
            case ["pct", "exec", vmid, *rest] if vmid.isdecimal() and "||" not in rest and _words(rest):
                containers = self._cluster.runtime.containers
                return containers.attach_command(int(vmid), _program(rest)) if containers.running(int(vmid)) else None
        return None

    def _push(self, vmid: int, node: str, rest: list[str], own: Mapping[str, bytes]) -> CommandResult:
        parser = _Parser(prog="pct push", add_help=False)
        parser.add_argument("file")
        parser.add_argument("destination")
        parser.add_argument("--perms", "-perms", default="0644")
        parser.add_argument("--user", "-user")
        parser.add_argument("--group", "-group")
        given = parser.parse_args(rest)
        content = own[given.file] if given.file in own else self._read(given.file)
        config = self._cluster.configs.load(vmid, node)
        spec = self._cluster.spec(vmid, node, config)
        self._cluster.runtime.containers.push(spec, given.destination, content, int(given.perms, 8))
        return CommandResult()

    def _read(self, path: str) -> bytes:
        """Read a file of the node's own filesystem."""
        *above, name = parts_of(path) or ["."]
        with descend(self._top(), "/".join(above)) as directory:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()

    def _top(self) -> Path:
        """Return the directory that stands for the node's root. Containers may have made symlinks in it."""
        top = self._cluster.runtime.host_path(next(iter(self._cluster.nodes)), "/")
        top.mkdir(parents=True, exist_ok=True)
        return top

    def _mkdir(self, rest: list[str]) -> CommandResult:
        parser = _Parser(prog="mkdir", add_help=False)
        parser.add_argument("-p", action="store_true")
        parser.add_argument("paths", nargs="+")
        given = parser.parse_args(rest)
        for text in given.paths:
            *above, name = parts_of(text) or ["."]
            # Parents are created even without -p: a real node has directories that the sandbox lacks.
            with descend(self._top(), "/".join(above), create=True) as directory:
                try:
                    os.mkdir(name, 0o755, dir_fd=directory)
                except FileExistsError:
                    if not given.p or not stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
                        raise
        return CommandResult()

    def _chown(self, rest: list[str]) -> CommandResult:
        parser = _Parser(prog="chown", add_help=False)
        parser.add_argument("-R", action="store_true")
        parser.add_argument("owner")
        parser.add_argument("paths", nargs="+")
        given = parser.parse_args(rest)
        user, group = (int(part or -1) for part in (*given.owner.split(":"), "")[:2])
        for text in given.paths:
            *above, name = parts_of(text) or ["."]
            with descend(self._top(), "/".join(above)) as directory:
                os.chown(name, user, group, dir_fd=directory, follow_symlinks=False)
                if not given.R:
                    continue
                for _, folders, files, where in os.fwalk(name, dir_fd=directory):
                    for entry in (*folders, *files):
                        os.chown(entry, user, group, dir_fd=where, follow_symlinks=False)
        return CommandResult()

    def _mountpoint(self, rest: list[str]) -> CommandResult:
        parser = _Parser(prog="mountpoint", add_help=False)
        parser.add_argument("-q", action="store_true")
        parser.add_argument("path")
        given = parser.parse_args(rest)
        try:
            with descend(self._top(), given.path):
                mounted = self._top().joinpath(*parts_of(given.path)).is_mount()
        except FileNotFoundError:
            return CommandResult(1, err="" if given.q else f"mountpoint: {given.path}: No such file or directory\n")
        word = "is" if mounted else "is not"
        return CommandResult(0 if mounted else 32, out="" if given.q else f"{given.path} {word} a mountpoint\n")

    def _ls(self, rest: list[str]) -> CommandResult:
        parser = _Parser(prog="ls", add_help=False)
        parser.add_argument("-l", action="store_true")
        parser.add_argument("-n", action="store_true")
        parser.add_argument("-a", action="store_true")
        parser.add_argument("-d", action="store_true")
        parser.add_argument("paths", nargs="*", default=["/"])
        given = parser.parse_args(rest)
        lines = []
        for text in given.paths:
            *above, name = parts_of(text) or ["."]
            with descend(self._top(), "/".join(above)) as directory:
                facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if given.d or not stat.S_ISDIR(facts.st_mode):
                    found = [(text, facts)]
                else:
                    with descend(self._top(), text) as inside:
                        names = sorted(os.listdir(inside))  # noqa: PTH208 - lists a descriptor
                        found = [(each, os.stat(each, dir_fd=inside, follow_symlinks=False)) for each in names]
            for shown, facts in found:
                long = f"{facts.st_mode:06o} {facts.st_uid} {facts.st_gid} {facts.st_size} "
                lines.append(f"{long if given.l or given.n else ''}{shown}\n")
        return CommandResult(out="".join(lines))
