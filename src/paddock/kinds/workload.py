"""The data that recipes return: code, processes, files and probes, independent of places and runtimes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from paddock.base.frozen import frozen
from paddock.file.kinds import FileView, Mistake
from paddock.file.models.network import Endpoint
from paddock.file.models.whole import AgentSpec
from paddock.file.secrets.sources import Source

if TYPE_CHECKING:
    from paddock.kinds.checks import Check
    from paddock.kinds.code import CodeTree, Distribution
    from paddock.kinds.conversation import Conversation
    from paddock.kinds.endpoints import ModelServer, Offer
    from paddock.kinds.keeping import Keeping, Traces

Own = TypeVar("Own", bound=AgentSpec, contravariant=True)


@frozen
class Paths:
    """Paths on the machine, as the runtime decides them."""

    code: str  # the folder of code trees, which are named by their ids
    etc: str  # the current bundle
    state: str  # top of the state; its folder ``.paddock`` belongs to Paddock
    home: str  # the agent's own part of the state
    state_link: str  # links to the state; shows when the file names another path than before

    @property
    def root(self) -> str:
        """The folder of the agent's bundles and secrets."""
        return self.etc.removesuffix("/current")

    @classmethod
    def of(cls, *, code: str, etc: str, state_link: str, state: str) -> Paths:
        """Return the paths with the agent's home in the state."""
        return cls(code, etc, state, f"{state}/home", state_link)


def working_directory(agent: AgentSpec, paths: Paths) -> str:
    """Return the absolute path of the agent's working directory."""
    directory = agent.working_directory
    return directory if directory.startswith("/") else f"{paths.home}/{directory}"


def beyond_home(agent: AgentSpec, paths: Paths) -> tuple[str, ...]:
    """Return the directories outside of its home that the agent may write to."""
    directory = working_directory(agent, paths)
    return () if f"{directory}/".startswith(f"{paths.home}/") else (directory,)


# A process that ends by one of these has ended cleanly, as systemd counts.
CLEAN_SIGNALS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM})


@frozen
class Process:
    """A long-running process of the agent."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    stop_seconds: int  # how long the process may take to stop
    clean_exits: Sequence[int] = (0,)  # exit codes that are not a failure after a stop
    fatal_exits: Sequence[int] = ()  # exit codes after which a restart would not help
    restart_exits: Sequence[int] = ()  # exit codes that request a restart, whatever ``restart`` is
    restart: str = "always"  # or another value of systemd's Restart=
    restart_seconds: float = 5.0
    path: Sequence[str] = ()  # directories at the start of PATH
    writable: Sequence[str] = ()  # directories that it may write to, beside its home
    browser: bool = False  # whether it starts a browser, which creates its own sandbox


@frozen
class File:
    """A file of the bundle. Every account can read it, so it has no secrets."""

    path: str  # below Paths.etc
    content: str
    executable: bool = False


class Keep(StrEnum):
    """What happens to a file in the state when the agent is configured again."""

    PLANTED = "plant"  # written again; until then the agent may change it
    SEEDED = "seed"  # written if there is none; then the agent may change it
    LOCKED = "lock"  # written again; the agent can read but not change or replace it


@frozen
class StateFile:
    """A text file in the state. Every account can read it in the bundle, so it has no secrets."""

    path: str  # below Paths.home, or absolute if the working directory is; locked files are never absolute
    content: str
    keep: Keep = Keep.PLANTED


@frozen
class SecretFile:
    """A secret file in the state. The agent owns it and may change it."""

    path: str  # below Paths.home
    source: Source
    overwrite: bool = False  # false: written only if there is no file


@frozen
class ImageContract:
    """How to run an image that contains the agent's code: it starts as root and switches to an account itself."""

    argv: Sequence[str]  # arguments of its entrypoint
    proof: Sequence[str]  # a program of the image that ends with 0 if the code runs; it writes nothing
    state: Mapping[str, str]  # where directories of Paths.home are mounted, by their names
    home: str  # home of the account that it switches to
    uid: str  # name of the variable with the account's user id
    gid: str
    own: Sequence[str]  # variables of the processes that the image sets itself
    forgotten: Sequence[str] = ()  # files that its start would act on; removed before each start
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that only the image needs


@frozen
class Program:
    """A command for every account on the machine."""

    name: str
    own: str  # path of the program for root and the agent's account, run with the agent's environment
    others: str  # path of the program for other accounts: the same code without the agent's environment


@frozen
class Workload:
    """Everything that the agent needs on its machine, except its code."""

    processes: Sequence[Process]
    files: Sequence[File]
    directories: Sequence[str]  # below Paths.home, or absolute; the agent owns them
    generated: Sequence[str]  # names of secrets that are generated on the machine and never leave it
    state_files: Sequence[StateFile] = ()
    secret_files: Sequence[SecretFile] = ()
    programs: Sequence[Program] = ()
    image: ImageContract | None = None  # how to run the agent from its own image, if there is one
    reaches: Sequence[Endpoint] = ()  # addresses in the file that the agent has to connect to


@frozen
class Request:
    """An HTTP request from the machine, usually to its loopback."""

    method: str
    url: str
    bearer: str | None = None  # name of the secret to send
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | Sequence[Any] | None = None
    seconds: float = 10.0
    login: bool = False  # whether the secret may be NAME:PASSWORD, which is sent as such
    keyless: bool = False  # whether it is sent without the secret if the agent has none of this name


@frozen
class Answer:
    """The answer to a request: its status, and its body if that is JSON."""

    status: int
    body: Any
    seconds: float = 0.0


@frozen
class Verdict:
    """The judgement of an answer, with its evidence."""

    ok: bool
    evidence: str
    hint: str | None = None  # what to do, if the check's own hint does not apply
    version: str = ""  # the version that the agent says it has
    unknown: bool = False  # the answer does not tell; the check neither holds nor fails


def judged(judge: Callable[[Any], Verdict], answer: Any) -> Verdict:
    """Return the verdict on an answer of an agent, which may have any form."""
    try:
        return judge(answer)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return Verdict(False, "the answer does not have the expected form")


class Probe(Protocol):
    """A request, and the judge of its answer."""

    @property
    def request(self) -> Request: ...

    def judge(self, answer: Answer) -> Verdict: ...


@frozen
class Command:
    """A command run on the machine as the agent's user; it must exit with 0."""

    argv: Sequence[str]

    def judge(self, done: Mapping[str, Any]) -> Verdict:
        return Verdict(done["code"] == 0, f"{' '.join(self.argv)} ended with {done['code']}")


@frozen
class OpenPort:
    """A port on the machine's loopback that must accept connections."""

    port: int

    def judge(self, _: Any) -> Verdict:
        return Verdict(True, f"port {self.port} accepts connections")


@frozen
class Page:
    """A URL on the machine's loopback that must answer with a certain status, and perhaps with certain values."""

    url: str
    status: int = 200
    values: tuple[tuple[str, str], ...] = ()  # keys of the JSON object in the answer, each with its value

    @property
    def request(self) -> Request:
        return Request("GET", self.url, seconds=5)

    def judge(self, answer: Answer) -> Verdict:
        found = answer.body if isinstance(answer.body, dict) else {}
        ok = answer.status == self.status and all(found.get(key) == value for key, value in self.values)
        return Verdict(ok, f"{self.url} answered {answer.status}")


# How a running agent shows that it is healthy. With None, an agent that runs counts as healthy.
Health = Page | Command | OpenPort | None


@frozen
class Probes:
    """The health probe and the prompt of an agent; without a health probe, a running agent counts as healthy."""

    health: Health
    prompt: Probe | None


class Recipe(Protocol[Own]):
    """A kind of agent. Pure. ``BaseRecipe`` and ``PackagedRecipe`` have defaults for most members."""

    @property
    def model(self) -> type[AgentSpec]:
        """The model of an agent of this kind; the literal type of its field ``kind`` is the kind's name."""

    def validate(self, name: str, agent: Own, file: FileView) -> Iterable[Mistake]:
        """Return the mistakes that the model does not find, with locations relative to the agent."""

    def unready(self, agent: Own, folder: Path) -> Iterable[Mistake]:
        """Return mistakes for a missing lock, which another verb creates. Only `check` asks for them."""

    def packages(self, agent: Own) -> Sequence[str]:
        """Return the packages that the agent needs, beside its code, by their names in Debian."""

    def recommended_packages(self, agent: Own) -> Sequence[str]:
        """Return Debian packages that are useful but not required; skipped where Paddock has no root."""

    def distribution(self, agent: Own, folder: Path) -> Distribution | None:
        """Return the agent's Python package, if it is one; relative paths start at the folder."""

    def code(self, agent: Own, folder: Path) -> CodeTree | None:
        """Return the agent's code tree, if its code is a Python package."""

    def versions(self, agent: Own, folder: Path) -> Sequence[str]:
        """Return the versions of the agent's package that there are locks for, the oldest first."""

    def workload(self, agent: Own, paths: Paths, tree: str) -> Workload:
        """Return the agent's processes and files; ``tree`` is the path of its code tree."""

    def probes(self, agent: Own, prompt: str, conversation: str) -> Probes:
        """Return how to check the agent's health, and that it answers a prompt in a conversation of this name."""

    def conversation(self, agent: Own) -> Conversation | None:
        """Return how to hold a conversation with the agent, if it keeps conversations."""

    def checks(self, agent: Own, name: str, paths: Paths) -> Sequence[Check]:
        """Return more checks for `verify`."""

    def traces(self, agent: Own) -> Traces:
        """Return where the state may be on a machine that Paddock did not set up."""

    def keeping(self, agent: Own) -> Keeping:
        """Return which files of the agent's state a backup keeps."""

    def harmless(self, agent: Own, model: str | None, ports: Mapping[str, int]) -> AgentSpec | None:
        """Return the agent as a copy that cannot act: it answers on its API, and does nothing else.

        ``model`` is the URL of a stand-in for its model; with None the copy uses the agent's own model. ``ports`` are
        the ports to listen on, by the names of ``AgentSpec.ports``. None if this kind cannot be made harmless.
        """

    def offer(self, agent: Own) -> Offer | None:
        """Return the models that the agent serves to other agents, if it does."""

    def using(self, agent: Own, server: ModelServer) -> AgentSpec:
        """Return the agent configured to use the models of a model gateway."""
