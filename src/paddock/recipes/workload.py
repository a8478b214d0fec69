"""What a recipe says: code, processes, files and probes, in words no place or runtime is part of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from paddock.spec.kinds import FileView, Mistake
from paddock.spec.models import AgentSpec
from paddock.spec.secrets import Source

if TYPE_CHECKING:
    from paddock.recipes.checks import Check
    from paddock.recipes.model_gateway import ModelServer, Offer

Own = TypeVar("Own", bound=AgentSpec, contravariant=True)


@dataclass(frozen=True)
class Paths:
    """Where things are on the machine; decided by the runtime, once."""

    code: str  # the store of code trees; each is named by its id
    etc: str  # the configuration in force
    state: str  # top of what must survive; its ``.paddock`` belongs to Paddock
    home: str  # the agent's own part of the state
    state_link: str  # leads to the state, wherever the file puts it; a change of mind is noticed there

    @classmethod
    def of(cls, *, code: str, etc: str, state_link: str, state: str | None) -> Paths:
        """With the state where the file says, or where its trail is."""
        return cls(code, etc, state or state_link, f"{state or state_link}/home", state_link)


@dataclass(frozen=True)
class LocalCode:
    """A wheel or a folder of sources on this machine."""

    path: Path
    digest: str  # of what is in it


@dataclass(frozen=True)
class Distribution:
    """A version of a Python package with extras, from an index or from this machine."""

    name: str
    version: str
    extras: Sequence[str]
    beside: Sequence[str] = ()  # packages it needs and does not name
    local: LocalCode | None = None

    @property
    def lock(self) -> str:
        """The name of its lock."""
        return f"{self.name}-{self.version}{''.join(f'+{extra}' for extra in self.extras)}.txt"

    @property
    def requirement(self) -> str:
        """Its name with its extras, as an installer takes it."""
        return f"{self.name}[{','.join(self.extras)}]" if self.extras else self.name


@dataclass(frozen=True)
class Tool:
    """A program of an npm package that goes with the code: one file of its archive, for each architecture.

    Where the package comes from is the registry that this machine is configured for; which one it is, its hash says.
    """

    name: str
    version: str
    sha512: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class CodeTree:
    """A Python package and all it needs at exact versions, each with its hash."""

    distribution: Distribution
    lock: str
    pythons: Sequence[str]  # versions of the interpreters it runs on, the best first
    proof: Sequence[str]  # arguments of its python that must succeed, with no side effect
    tools: Sequence[Tool] = ()

    @property
    def id(self) -> str:
        """Names the tree by what goes into it."""
        local = self.distribution.local
        parts = ["2", local.digest if local else "", *(tool.sha512 for tool in self.tools), self.lock]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


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
    restart_exits: Sequence[int] = ()  # codes that ask for a restart, whatever ``restart`` says
    restart: str = "always"  # or on-failure, or no
    restart_seconds: float = 5.0
    path: Sequence[str] = ()  # directories of programs, before those of the machine
    writable: Sequence[str] = ()  # directories it may write to beside its home
    browser: bool = False  # whether it starts a browser, which puts a sandbox of its own around pages


@dataclass(frozen=True)
class File:
    """A file of the configuration; readable by everyone, so never a secret."""

    path: str  # below Paths.etc
    content: str
    executable: bool = False


class Keep(StrEnum):
    """What becomes of a file in the state when the agent is configured again."""

    PLANTED = "plant"  # written anew; until then it is the agent's
    SEEDED = "seed"  # written where there is none, and the agent's from then on
    LOCKED = "lock"  # written anew; the agent can read it, but neither change nor replace it


@dataclass(frozen=True)
class StateFile:
    """A text in the state; readable by everyone on its way there, so never a secret."""

    path: str  # below Paths.home; absolute only where the file says so, and never if locked
    content: str
    keep: Keep = Keep.PLANTED


@dataclass(frozen=True)
class SecretFile:
    """A file in the state whose content is a secret; it is the agent's, which may refresh it."""

    path: str  # below Paths.home
    source: Source
    overwrite: bool = False  # false: written where there is none


@dataclass(frozen=True)
class ImageContract:
    """How an image that brings the agent's code wants to be run: as root, from which it drops to an account itself."""

    argv: Sequence[str]  # what its entrypoint is given
    state: Mapping[str, str]  # where it wants directories of Paths.home
    home: str  # of the account it drops to
    uid: str  # the variables that name that account
    gid: str
    own: Sequence[str]  # variables of the processes that it sets itself
    environment: Mapping[str, str] = field(default_factory=dict)  # variables it alone needs


@dataclass(frozen=True)
class Program:
    """A command for everyone on the machine."""

    name: str
    own: str  # what root and the agent's account get by it: the agent's own, with its environment
    others: str  # what everybody else gets: the same code, and nothing of the agent


@dataclass(frozen=True)
class Workload:
    """All that has to be on the machine for the agent to work, except its code."""

    processes: Sequence[Process]
    files: Sequence[File]
    directories: Sequence[str]  # below Paths.home, or absolute; the agent's
    generated: Sequence[str]  # secrets that only the machine itself needs to know
    state_files: Sequence[StateFile] = ()
    secret_files: Sequence[SecretFile] = ()
    programs: Sequence[Program] = ()
    image: ImageContract | None = None  # how its own image would run it, where there is one
    health: Page | Command | OpenPort | None = None  # the sign that it is well, for those who cannot judge more


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
    hint: str | None = None  # what to do, where that is not what the check's own hint says


def judged(judge: Callable[[Any], Verdict], answer: Any) -> Verdict:
    """Return the verdict on something that an agent said, which may have any form."""
    try:
        return judge(answer)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return Verdict(False, "the answer does not have the form that it should have")


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
class Page:
    """A URL on the machine's loopback that answers with the status it should."""

    url: str
    status: int = 200

    @property
    def request(self) -> Request:
        return Request("GET", self.url, seconds=5)

    def judge(self, answer: Answer) -> Verdict:
        return Verdict(answer.status == self.status, f"{self.url} answered {answer.status}")


@dataclass(frozen=True)
class Traces:
    """Where a kind of agent keeps its state on a machine that somebody else has set up, beside its account's home."""

    directories: Sequence[str] = ()  # absolute
    names: Sequence[str] = ()  # of files and directories that no other program has, wherever they are


@dataclass(frozen=True)
class Probes:
    """The questions a recipe offers; without health, to run is to be healthy."""

    health: Probe | Command | OpenPort | None
    prompt: Probe | None


class Recipe(Protocol[Own]):
    """A kind of agent. Pure; imports the spec only. ``BaseRecipe`` and ``PackagedRecipe`` have the usual answers."""

    @property
    def model(self) -> type[AgentSpec]:
        """The model of its part of the file; its field ``kind`` is a literal, which names the kind."""
        ...

    def validate(self, name: str, agent: Own, file: FileView) -> Iterable[Mistake]:
        """Return the mistakes in the file that the model cannot see, with locations relative to the agent."""
        ...

    def packages(self, agent: Own) -> Sequence[str]:
        """The Debian packages it needs beside its code."""
        ...

    def recommended_packages(self, agent: Own) -> Sequence[str]:
        """Those that it does without where nobody may install them."""
        ...

    def distribution(self, agent: Own, folder: Path) -> Distribution | None:
        """The Python package this agent is, if it is one; relative paths of the file start at the folder."""
        ...

    def code(self, agent: Own, folder: Path) -> CodeTree | None:
        """The code this agent runs, unless packages bring it."""
        ...

    def workload(self, agent: Own, paths: Paths, tree: str) -> Workload:
        """Its processes and files, given where things are and where its code tree is."""
        ...

    def probes(self, agent: Own, prompt: str, conversation: str) -> Probes:
        """How to see that it lives, and that it answers a prompt in a conversation of that name."""
        ...

    def checks(self, agent: Own, name: str, paths: Paths) -> Sequence[Check]:
        """What else `verify` can ask it."""
        ...

    def traces(self, agent: Own) -> Traces:
        """Where its state may be on a machine that somebody else has set up."""
        ...

    def offer(self, agent: Own) -> Offer | None:
        """The models it has for other agents, if it has any."""
        ...

    def using(self, agent: Own, server: ModelServer) -> AgentSpec:
        """The agent, with its models from another one."""
        ...
