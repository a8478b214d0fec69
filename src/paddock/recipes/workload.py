"""What a recipe says: code, processes, files and probes, in words no place or runtime is part of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from paddock.spec.models import AgentSpec

Own = TypeVar("Own", bound=AgentSpec, contravariant=True)


@dataclass(frozen=True)
class Paths:
    """Where things are on the machine; decided by the runtime, once."""

    code: str  # the store of code trees; each is named by its id
    etc: str  # the configuration in force
    state: str  # top of what must survive; its ``.paddock`` belongs to Paddock
    home: str  # the agent's own part of the state
    trail: str  # leads to the state, wherever the file puts it; a change of mind is noticed there


@dataclass(frozen=True)
class CodeTree:
    """Python packages at exact versions, each with its hash."""

    lock: str
    pythons: Sequence[str]  # versions of the interpreters it runs on, the best first
    proof: Sequence[str]  # arguments of its python that must succeed, with no side effect

    @property
    def id(self) -> str:
        """Names the tree by what goes into it."""
        return hashlib.sha256(f"2\n{self.lock}".encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Process:
    """A program that should always run."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    stop_seconds: int  # how long it may take to end well
    clean_exits: Sequence[int] = (0,)  # codes that are no failure after a stop
    fatal_exits: Sequence[int] = ()  # codes after which a restart would not help
    restart: str = "always"  # or on-failure, or no
    restart_seconds: float = 5.0


@dataclass(frozen=True)
class File:
    """A file of the configuration; readable by everyone, so never a secret."""

    path: str  # below Paths.etc
    content: str


@dataclass(frozen=True)
class Workload:
    """All that has to be on the machine for the agent to work, except its code."""

    processes: Sequence[Process]
    files: Sequence[File]
    directories: Sequence[str]  # below Paths.home
    generated: Sequence[str]  # secrets that only the machine itself needs to know


@dataclass(frozen=True)
class Request:
    """An HTTP request made on the machine, to loopback."""

    method: str
    url: str
    bearer: str | None = None  # name of the secret to send
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    seconds: float = 10.0


@dataclass(frozen=True)
class Answer:
    """What came back: a status and, if it was JSON, the body."""

    status: int
    body: Any
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """How an answer is judged, and the words that prove it."""

    ok: bool
    evidence: str


class Probe(Protocol):
    """A request whose answer shows whether the agent works."""

    @property
    def request(self) -> Request: ...

    def judge(self, answer: Answer) -> Verdict: ...


@dataclass(frozen=True)
class Command:
    """A program run on the machine as the agent's user; it must end with 0."""

    argv: Sequence[str]


@dataclass(frozen=True)
class OpenPort:
    """A port on the machine's loopback that must accept connections."""

    port: int


@dataclass(frozen=True)
class Probes:
    """The questions a recipe offers; without health, to run is to be healthy."""

    health: Probe | Command | OpenPort | None
    prompt: Probe | None


class Recipe(Protocol[Own]):
    """A kind of agent. Pure; imports the spec only."""

    def packages(self, agent: Own) -> Sequence[str]:
        """The Debian packages it needs beside its code."""
        ...

    def code(self, agent: Own) -> CodeTree | None:
        """The code this agent runs, unless packages bring it."""
        ...

    def workload(self, agent: Own, paths: Paths, tree: str) -> Workload:
        """Its processes and files, given where things are and where its code tree is."""
        ...

    def probes(self, agent: Own, prompt: str, conversation: str) -> Probes:
        """How to see that it lives, and that it answers a prompt in a conversation of that name."""
        ...
