"""An agent in this account that outlives the runs that are killed: real scripts, streams and backups.

Only its program is a stand-in, which holds the lease and has a database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from core.account_agent import FILE, NEW, OLD, Account, AccountSide, Program
from faults.disks import checksum
from faults.killing import Ask
from killed_script import files_below
from paddock.base.errors import PaddockError
from paddock.channels import Guest
from paddock.core import streams
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation
from paddock.core.resolve import Located
from paddock.file.referenced import inlined
from paddock.kinds import KINDS, load
from paddock.places.contract import AnyPlace
from paddock.places.host.place import HostPlace
from paddock.plan.actions import AgentAction, RemoveAgent, StartAgent
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.show.reporter import Reporter

POISON = "poison"
UNSETTLED = ("incoming", "incoming.json", "incoming-aside", "discarded", "before")


class Answering(Program):
    """The stand-in. It does not answer while it knows a poison."""

    def forget(self, text: str) -> None:
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("DELETE FROM messages WHERE text = ?", [text])
            database.commit()

    @property
    def answers(self) -> bool:
        return POISON not in self.knows()[1]


class FarProgram:
    """The stand-in, as a run sees it: it does not end with the run."""

    def __init__(self, ask: Ask, state: Path) -> None:
        self._ask, self.state = ask, state

    def start(self, version: str) -> None:
        self._ask("program", "start", version)

    def stop(self) -> None:
        self._ask("program", "stop")

    def say(self, text: str) -> None:
        self._ask("program", "say", text)

    @property
    def version(self) -> str:
        return str(self._ask("version"))

    @property
    def answers(self) -> bool:
        return bool(self._ask("answers"))

    @property
    def running(self) -> object:
        return self._ask("running") or None


class Side(AccountSide):
    """The real machine side. The program starts and stops as systemd would start and stop it."""

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if isinstance(action, RemoveAgent):
            self.program.stop()
        super().perform(agent, action, seen, reach)
        if isinstance(action, StartAgent):
            self.program.start(agent.version)

    def _answer(self, agent: Located, guest: Guest) -> None:
        program: Any = self.program
        if not program.answers:
            raise PaddockError("it does not answer")
        super()._answer(agent, guest)


class AccountWorld:
    """One agent in an account of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ForegroundProcess, "foreground", False)
        self.folder = folder
        self.account = Account(folder)
        self.program: Any = Answering(self.account.program.state)
        stop = streams.stop

        def stop_with_program(agent: Located, guest: Guest) -> None:
            self.program.stop()  # as systemd would
            stop(agent, guest)

        monkeypatch.setattr(streams, "stop", stop_with_program)
        self.second_writers = 0
        self._paused: str | None = None

    def pause(self) -> None:
        """Stop the program, which holds the lease: this process is about to be copied, and a copy would hold it too."""
        self._paused = self.program.version if self.program.running else None
        self.program.stop()

    def refresh(self) -> None:
        """Start the program in this copy of the process."""
        if self._paused:
            self.program.start(self._paused)

    def facts(self) -> object:
        """Return everything that a killed run leaves: the files, and the version that runs."""
        return files_below([str(self.folder)]), self.program.version if self.program.running else None

    def services(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "program": lambda method, *arguments: getattr(self.program, method)(*arguments),
            "version": lambda: self.program.version,
            "answers": lambda: self.program.answers,
            "running": lambda: self.program.running is not None,
        }

    def connect(self, ask: Ask, reach: Callable[[str], None]) -> None:
        self.program.stop()  # the lock is that of the other process, and stays
        self.program = FarProgram(ask, self.state)

    def agent(self, version: str = OLD, **keys: str) -> Deployment:
        """Return the agent of a file with this version, as a new run sees it."""
        text = FILE.replace("VERSION", version) + "".join(f"    {key}: {value}\n" for key, value in keys.items())
        (self.folder / "paddock.yaml").write_text(text)
        return self._deployed()

    def agents(self) -> list[Deployment]:
        """Return the agents of the last run's file."""
        return [self._deployed()] if (self.folder / "paddock.yaml").exists() else []

    def _deployed(self) -> Deployment:
        loaded = load(self.folder / "paddock.yaml")
        host = loaded.spec.places["here"].host
        assert host is not None
        return Deployment(
            project="home",
            name="bee",
            spec=inlined(loaded.spec.agents["bee"], loaded.folder),
            folder=loaded.folder,
            place=cast("AnyPlace", HostPlace("here", host, loaded.folder)),
            recipe=KINDS["hermes"],
            reporter=Reporter().of("bee"),
            machine_side=Side(self.program),
        )

    @property
    def state(self) -> Path:
        return self.account.program.state

    def knows(self) -> set[str]:
        """Return what the agent was told; empty if it has no database."""
        return self.account.program.knows()[1] if self.account.program.database.exists() else set()

    def checksum(self, *parts: str) -> str | None:
        """Return a hash of a part of the state."""
        top = self.state.joinpath(*parts)
        return checksum(top) if top.exists() else None

    def settle(self) -> None:
        """Do nothing: programs on this machine end with the run that started them."""

    def summary(self) -> list[str]:
        """Describe the agent and its files in words."""
        own = self.state / ".paddock"
        version = f"runs {self.program.version}" if self.program.running else "stopped"
        return [version, *sorted(path.name for path in own.iterdir())] if own.exists() else [version]

    def wrong(self) -> list[str]:
        """Return what no finished run leaves."""
        own = self.state / ".paddock"
        found = [f"{own / name} is left" for name in UNSETTLED if (own / name).exists()]
        forgotten = list(self.state.parent.glob(".paddock-forgotten*"))
        return [*found, *(f"{path} is left" for path in forgotten)]


__all__ = ["NEW", "OLD", "AccountWorld"]
