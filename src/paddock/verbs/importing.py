"""Import an install that exists without Paddock: it is copied into the state of an agent, and stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from paddock.base import clock
from paddock.base.computer import require_linux
from paddock.base.errors import BadInput, NeedsPerson, PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed
from paddock.base.text import one_line
from paddock.channels import Guest
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import NoPython, Request, streaming, tried
from paddock.channels.ssh import SshGuest
from paddock.core import converge, streams
from paddock.core.deployment import Deployment, Incoming
from paddock.core.lock import agent_lock
from paddock.core.observe import Observation, observe, reach
from paddock.core.resolve import Located, Resolved, locate
from paddock.onboard.imports.give import GiveInstall
from paddock.onboard.imports.look import DescribeInstall
from paddock.onboard.imports.retire import RetireInstall
from paddock.plan.importing import OriginSeen, planned
from paddock.plan.step import AdoptTarget, Plan

_SECONDS: Final = 600  # for a search of a root disk, and for a service that stops slowly
Json = dict[str, Any]


@frozen
class FoundInstall:
    """An install on its machine. It is an `Origin`."""

    guest: Guest
    source: Source
    order: Mapping[str, Any]  # the input of the programs on its machine
    found: Json  # what `look` reported; hostile

    @property
    def record(self) -> Mapping[str, str]:
        return {"source": f"{self.path} on {self.source}", "at": str(self.order["mark"]["at"])}

    @property
    def path(self) -> str:
        return one_line(str(self.found["path"]), 300)

    def retire(self) -> None:
        units = [{"name": each["name"], "uid": each["uid"]} for each in self.found["units"]]
        containers = [each["id"] for each in self.found["containers"]]
        order = {**self.order, "path": self.found["path"], "units": units, "containers": containers}
        _told(self.guest, RetireInstall(order), self.source)

    @contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """Yield the stream of its state."""
        with streaming(self.guest, GiveInstall({**self.order, "path": self.found["path"]})) as pipes:
            yield pipes.source
            # If the receiver gave up, the sender waits for it, and is killed when this block ends.
            if not pipes.source.read(1) and not (result := pipes.end()).ok:
                raise CommandFailed(f"reading {self.path} on {self.source}", result)

    def seen(self, agent: Located) -> OriginSeen:
        """Return it for planning, with texts that are safe to print."""
        found, mark = self.found, self.found["mark"]
        other = mark is not None and (mark["agent"], mark["place"]) != _names(agent)
        users = [*found["units"], *found["containers"]]
        known = _variables(agent)
        return OriginSeen(
            where=str(self.source),
            path=self.path,
            files=int(found["files"]),
            bytes=int(found["bytes"]),
            owner=one_line(str(found["owner"]), 80),
            running=[one_line(str(each["name"]), 120) for each in users if each["active"]],
            resting=[one_line(str(each["name"]), 120) for each in users if not each["active"]],
            others=[f"process {int(each['pid'])} ({one_line(str(each['name']), 80)})" for each in found["others"]],
            imported_by=one_line(f"{mark['agent']} at {mark['place']}", 200) if other else None,
            variables=[one_line(str(name), 80) for name in found["variables"] if name not in known][:40],
            environment_file=str(self.order["environment_file"]),
            account=None if found["as_root"] else getattr(self.source, "user", None) or "that runs this command",
        )


def named(text: str) -> Source:
    """Return the source that a person named."""
    source = parse(text)
    if source is None:
        raise BadInput(
            f"{text} is neither a container, a host, a zip file nor a folder",
            hint="--from takes 118, 118:/opt/hermes, user@host, user@host:/opt/hermes, ./backup.zip or ./folder",
        )
    return source


def plan(agent: Deployment, source: Source, host_key: str | None) -> Plan:
    """Look at the source, observe the agent, and plan the import."""
    prepared = _Import.of(agent, source, host_key)
    return prepared.plan(observe(prepared.agent))


def adopt(agent: Deployment, source: Source, host_key: str | None) -> str:
    """Import the source as the state of an agent; return a line about the result."""
    with agent_lock(agent):
        with agent.reporter.step("source.look", f"look at the install on {source}"):
            prepared = _Import.of(agent, source, host_key)
        converge.converge(prepared.agent, prepared.plan)
    install = prepared.install
    agent.reporter.journal("import", files=install.found["files"], bytes=install.found["bytes"], **install.record)
    runs = "is ready" if prepared.agent.runtime.foreground else "works"
    left = "the archive" if isinstance(source, Archive) else "the install does not start any more; its folder"
    return f"{agent.name}: imported {install.path} from {source}, and {runs}; {left} is as it was"


@frozen
class _Import:
    """An agent, and the install that becomes its state."""

    agent: Located
    install: FoundInstall

    @classmethod
    def of(cls, agent: Deployment, source: Source, host_key: str | None) -> _Import:
        located = locate(agent)
        install = _look(located, source, _guest(located, source, host_key))
        name, size = f"{install.path} from {source}", int(install.found["bytes"])
        incoming = Incoming(name, size, install.stream, origin=install)
        receiving = locate(replace(agent, incoming=incoming))
        resolved = converge.resolve_or_refuse(receiving)
        return cls(resolved if isinstance(resolved, Resolved) else receiving, install)

    def plan(self, seen: Observation) -> Plan:
        resolved = converge.resolve_or_refuse(self.agent) if not isinstance(self.agent, Resolved) else self.agent
        up = converge.plan_up(self.agent, converge.want_of(resolved), seen)
        return planned(up, self.install.seen(self.agent), self._used(seen))

    def _used(self, seen: Observation) -> str | None:
        """Return why the agent has a state already. A state without files is none."""
        if seen.agent is None or seen.agent.state_of is None or seen.agent.kept_aside:
            return None
        return streams.not_new(self.agent, reach(self.agent, seen), 0)


def _look(agent: Located, source: Source, guest: Guest) -> FoundInstall:
    keeping, traces = agent.recipe.keeping(agent.spec), agent.recipe.traces(agent.spec)
    identity, place = _names(agent)
    order = {
        "path": str(source.path) if source.path else None,
        "archive": isinstance(source, Archive),
        "directories": list(traces.directories),
        "names": list(traces.names),
        "becomes": traces.becomes,
        "known_by": list(traces.known_by),
        "variable": traces.variable,
        "programs": list(traces.programs),
        "environment_file": traces.environment_file,
        "wrappers": list(traces.wrappers),
        "beside": traces.beside,
        "mark": {"agent": identity, "place": place, "at": f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"},
        # For the stream.
        "under": traces.becomes,
        "owner": agent.spec.user.name,
        "rebuilt": [*keeping.rebuilt, *traces.rebuilt],
        "databases": list(keeping.databases),
        "growing": list(keeping.growing),
        "about": {"agent": identity, "kind": agent.spec.kind, "version": None, "imported_from": str(source)},
    }
    told = _told(guest, DescribeInstall(dict(order)), source)
    try:
        found = dict(told)
        install = FoundInstall(guest, source, order, found)
        install.seen(agent)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PaddockError(f"the report about the install on {source} cannot be read") from None
    return install


def _guest(agent: Located, source: Source, host_key: str | None) -> Guest:
    """Return the channel to the machine that has the install."""
    if host_key is not None and not isinstance(source, Container):
        raise BadInput("--host-key is for a container; the key of a host is checked with your known_hosts")
    match source:
        case Folder() | Archive():
            # Only /proc says whether a program uses the files.
            hint = "copy it to a Linux host, and name it as --from user@host:/path"
            require_linux("an import from this machine", hint)
            return LocalGuest()
        case Remote(user, host, port):
            return SshGuest(host, host, user, port or 22)
        case Container(number):
            return _container(agent, number, host_key)


def _container(agent: Located, number: int, host_key: str | None) -> Guest:
    adoption, want = agent.place.adoption, agent.machine_want
    machine = want.spec.machine.model_copy(update={"host_key": host_key})
    visited = replace(want, spec=want.spec.model_copy(update={"machine": machine}))
    try:
        guest = adoption.visit(visited, AdoptTarget(number), agent.place.observe(want)) if adoption else None
    except NeedsPerson as unknown:
        hint = (unknown.hint or "").split("\n")[0]
        raise NeedsPerson(unknown.message, hint=f"{hint}\nif they are the same, add --host-key and the key") from None
    if guest is None:
        raise BadInput(
            f"there is no container {number} in {agent.where}, or it cannot be seen",
            hint=f"if it exists, name it by its address: --from root@ADDRESS\n"
            f"or let the token of the place read it: give it the role PVEAuditor on /vms/{number}",
        )
    return guest


def _told(guest: Guest, request: Request, source: Source) -> Any:
    """Make a request to the machine that has the install, and return the answer."""
    try:
        answer = tried(guest, request, deadline=_SECONDS)
    except NoPython:
        raise PaddockError(
            f"there is no python3 on {source}", hint="install it there: `apt-get install python3`"
        ) from None
    if not answer.result.ok:
        said = one_line(answer.result.err.strip().split("\n")[-1] or f"code {answer.result.code}", 1000)
        raise PaddockError(f"the install on {source} cannot be imported: {said}")
    return answer.value


def _names(agent: Located) -> tuple[str, str]:
    """Return the agent and its place, as a mark names them."""
    return str(agent.id), f"{agent.place.traits.identity} {agent.paths.state}"


def _variables(agent: Located) -> set[str]:
    """Return the names of the variables that the file gives the agent."""
    known = {*agent.spec.environment, *agent.spec.secrets}
    if isinstance(agent, Resolved) and not hasattr(agent.secrets, "error"):
        known |= {*agent.known_secrets.environment, *agent.workload.generated}
    return known


_CONTAINER: Final = re.compile(r"(?P<number>[1-9]\d{1,8})(?::(?P<path>/.*))?", re.DOTALL)
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST: Final = rf"(?P<host>{_NAME}|\[[0-9A-Fa-f:.]+\])"
_SSH: Final = re.compile(rf"ssh://(?P<user>{_NAME})@{_HOST}(?::(?P<port>\d{{1,5}}))?(?P<path>/.*)?", re.DOTALL)
_SCP: Final = re.compile(rf"(?P<user>{_NAME})@{_HOST}(?::(?P<path>/.*)?)?", re.DOTALL)


@frozen
class Container:
    """A container of the agent's place."""

    number: int
    path: str | None = None  # of the install's folder; without it the folder is searched for

    def __str__(self) -> str:
        return f"container {self.number}"


@frozen
class Remote:
    """A host over ssh."""

    user: str
    host: str
    port: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"


@frozen
class Folder:
    """A folder on this machine."""

    path: Path

    def __str__(self) -> str:
        return "this machine"


@frozen
class Archive:
    """A zip file on this machine."""

    path: Path

    def __str__(self) -> str:
        return "this machine"


Source = Container | Remote | Folder | Archive


def parse(text: str) -> Source | None:
    """Return the source that a text names, or None. Paths are looked up on this machine; nothing else is read."""
    if not text or "\0" in text:
        return None
    path = Path(text).expanduser()
    if text.startswith((".", "/", "~")) or path.exists():
        return _here(path)
    if found := _CONTAINER.fullmatch(text):
        return Container(int(found["number"]), found["path"])
    if found := _SSH.fullmatch(text):
        port = int(found["port"]) if found["port"] else None
        return Remote(found["user"], found["host"].strip("[]"), port, found["path"])
    if found := _SCP.fullmatch(text):
        return Remote(found["user"], found["host"].strip("[]"), None, found["path"])
    return None


def _here(path: Path) -> Source | None:
    if path.is_dir():
        return Folder(path.resolve())
    return Archive(path.resolve()) if path.is_file() else None
