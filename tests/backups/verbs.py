"""An agent of this machine without root, and the verbs that back it up and restore it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import typer

from paddock import cli
from paddock.base.errors import PaddockError

FILE = """
project: home
places: {{here: {{host: {{}}}}}}
agents:
  web: {{kind: service, place: here, runtime: process, command: [sleep, inf], backup: {{to: {to}}}}}
"""


@dataclass(frozen=True)
class Agent:
    """An agent with a file that describes it."""

    file: Path
    state: Path
    backups: Path  # the folder with its backups

    @classmethod
    def up(cls, folder: Path, to: str, data: Path) -> Agent:
        """Deploy the agent and give it a memory. `data` is what XDG_DATA_HOME says."""
        file = folder / "paddock.yaml"
        file.write_text(FILE.format(to=to))
        agent = cls(file, data / "paddock/web/state", folder / "backups/home_web")
        agent.run("up")
        memories = agent.home / "memories"
        memories.mkdir()
        (memories / "MEMORY.md").write_text("the gate code is 7421\n")
        (memories / "link").symlink_to("MEMORY.md")
        return agent

    @property
    def home(self) -> Path:
        return self.state / "home"

    def run(self, *words: str) -> str:
        """Run a verb and return what it prints."""
        before, sys.stdout = sys.stdout, StringIO()
        try:
            _command_line().main([*words, "-f", str(self.file)], standalone_mode=False)
            return sys.stdout.getvalue()
        finally:
            sys.stdout = before

    def refused(self, *words: str) -> PaddockError:
        """Run a verb that has to fail with a message for people, and return that."""
        try:
            printed = self.run(*words)
        except PaddockError as error:
            return error
        raise AssertionError(f"{' '.join(words)} did not fail, and printed: {printed}")

    def content(self) -> Mapping[str, tuple[object, ...]]:
        """Return everything in the home: types, contents, modes and times."""
        return {str(path.relative_to(self.home)): _facts(path) for path in sorted(self.home.rglob("*"))}

    def left(self) -> list[str]:
        """Return what a restore has left beside the home."""
        known = {"identity", "locked", "lease", "holder"}
        return sorted(path.name for path in (self.state / ".paddock").iterdir() if path.name not in known)


@cache
def _command_line() -> Any:
    cli.import_verbs()
    return typer.main.get_command(cli.app)


def _facts(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return content, found.st_mode, found.st_mtime_ns
