"""An agent in this account whose version changes: real scripts, streams and backups; only its program is a stand-in.

The stand-in holds the lease like every agent. It converts its database when it starts, and each answer is a message. A
version named broken converts the database too, and then does not answer.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from core.memory_place import MemoryPlace
from paddock.base.errors import PaddockError
from paddock.base.process import Pipes, Result
from paddock.channels import Guest
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.core import version as upgrading
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import Located, Resolved
from paddock.file.referenced import inlined
from paddock.kinds import KINDS, load
from paddock.places.contract import AnyPlace
from paddock.plan.actions import AgentAction, ApplyBundle, AwaitAnswer, GoBack, InstallCode, StopAgent
from paddock.runtimes.process.supervise import lease
from paddock.show.reporter import Reporter

OLD, NEW, BROKEN = "0.30.0", "0.31.0", "0.32.0"
SILENT = "silent"  # a value of COLOUR with which the agent does not answer
FILE = """\
project: home
places: {here: {host: {}}}
agents:
  bee:
    kind: hermes
    version: VERSION
    place: here
    runtime: process
    settings: {model: {provider: custom:x, default: m}, providers: {x: {base_url: "http://127.0.0.1:9/v1"}}}
"""


class Killed(BaseException):
    """The end of a run, without any cleanup."""


@dataclass(frozen=True)
class CutGuest:
    """This machine, for a run that may be killed before and after each program that it runs here."""

    cut: Callable[[], None]
    real: LocalGuest = field(default_factory=LocalGuest)

    @property
    def name(self) -> str:
        return self.real.name

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        self.cut()
        done = self.real.run(argv, stdin=stdin, deadline=deadline)
        self.cut()
        return done

    def piped(self, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        self.cut()
        return self.real.piped(argv)


@dataclass
class AccountPlace(MemoryPlace):
    """This account. It keeps what is on it."""

    cut: Callable[[], None] = lambda: None
    traits = replace(MemoryPlace.traits, mounts_state=False, keeps_machine=True)

    def guest(self, *_: object) -> Guest:
        return cast("Guest", CutGuest(self.cut))


@dataclass
class Program:
    """The stand-in for the agent's program."""

    state: Path
    running: ExitStack | None = None
    version: str = ""

    def start(self, version: str) -> None:
        with ExitStack() as began:
            began.enter_context(lease(self.state))
            self.running, self.version = began.pop_all(), version
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS messages (text TEXT, timestamp REAL)")
            database.execute(f"PRAGMA user_version={version.split('.')[1]}")
            database.commit()

    def stop(self) -> None:
        if self.running:
            self.running.close()
        self.running = None

    def say(self, text: str) -> None:
        assert self.running, "only a running agent learns something"
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("INSERT INTO messages VALUES (?, ?)", [text, time.time()])
            database.commit()

    @property
    def database(self) -> Path:
        return self.state / "home/.hermes/state.db"

    def knows(self) -> tuple[int, set[str]]:
        """Return the version of its database, and what it was told."""
        with closing(sqlite3.connect(self.database)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            return int(version), {row[0] for row in database.execute("SELECT text FROM messages")}


class AccountSide(OnMachine):
    """The real machine side, with a stand-in for the code and for the program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        match action:
            case InstallCode(tree):
                place = Path(agent.paths.code) / tree
                place.mkdir(parents=True, exist_ok=True)
                (place / "manifest").write_text(tree)
            case StopAgent():
                self.program.stop()
                super().perform(agent, action, seen, reach)
            case ApplyBundle():
                super().perform(agent, action, seen, reach)
                self.program.stop()
                self.program.start(agent.version)
            case GoBack(bundle_id):
                guest = reach()
                ask(guest, "going back", agent.runtime.back())
                self.program.stop()
                self.program.start((self.program.state / ".paddock/version").read_text().strip())
                ask(guest, "recording", agent.runtime.record_verified(bundle_id))
            case AwaitAnswer():
                self._answer(agent, reach())
            case _:
                super().perform(agent, action, seen, reach)

    def is_healthy(self, agent: Resolved, seen: Observation) -> bool:
        return self.program.running is not None and self.program.version != BROKEN

    def _answer(self, agent: Located, guest: Guest) -> None:
        assert isinstance(agent, Resolved)
        assert self.program.version == agent.version, "another version runs than the one that is verified"
        self.program.say(f"verified with {self.program.version}")
        if self.program.version == BROKEN or agent.spec.environment.get("COLOUR") == SILENT:
            raise PaddockError("it does not answer")
        upgrading.record(agent, guest, "verified")
        ask(guest, "recording", agent.runtime.record_verified(agent.bundle.id))


class Account:
    """One agent in this account, and runs of Paddock on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "locks").mkdir(parents=True)
        for version in (OLD, NEW, BROKEN):
            (folder / f"locks/hermes-agent-{version}.txt").write_text(f"hermes-agent=={version}\n")
        self.program = Program(folder / "xdg_data_home/paddock/bee/state")
        self.place = AccountPlace(machines={"home_bee": True}, states={"home_bee": folder})

    def agent(self, version: str, **keys: str) -> Deployment:
        """Return the agent of a file with this version, as a new run sees it. Keys have values in YAML."""
        file = self.folder / "paddock.yaml"
        file.write_text(
            FILE.replace("VERSION", version) + "".join(f"    {key}: {value}\n" for key, value in keys.items())
        )
        loaded = load(file)
        return Deployment(
            project="home",
            name="bee",
            spec=inlined(loaded.spec.agents["bee"], loaded.folder),
            folder=loaded.folder,
            place=cast("AnyPlace", self.place),
            recipe=KINDS["hermes"],
            reporter=Reporter().of("bee"),
            machine_side=AccountSide(self.program),
        )
