"""The parameters of a backup job, the template of its notes, and its log."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pvebox.api.errors import ParameterError
from pvebox.backups.prune import Retention
from pvebox.cluster.tasks import Task

DEFAULT_STORAGE: Final = "local"
_ESCAPE = re.compile(r"\\(.)")
_VARIABLE = re.compile(r"\{\{([^\s{}]+)\}\}")
_VARIABLES: Final = ("cluster", "guestname", "node", "vmid")


@dataclass(frozen=True)
class JobOrder:
    """The parameters of a backup call, after its checks."""

    node: str
    user: str
    vmids: Sequence[int]
    command_line: str
    storage: str = DEFAULT_STORAGE
    mode: str = "snapshot"
    suffix: str = ".tar"
    # Whether the call asks for all guests, and so leaves out the ones that the caller may not back up.
    all: bool = False
    lock_minutes: int = 180
    stop_minutes: int = 10
    ionice: int = 7
    bwlimit: int = 0
    remove: bool = True
    retention: Retention | None = None
    notes_template: str = ""
    protected: bool = False
    exclude: Sequence[str] = ()
    standard_excludes: bool = True


class BackupLog:
    """The log of one guest's backup."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._lines: list[str] = []
        # Errors before the log file is opened are only in the task's log.
        self.begun = False

    @property
    def text(self) -> str:
        """The content of the log file."""
        return "".join(f"{line}\n" for line in self._lines)

    def begin(self) -> None:
        """Open the log file."""
        self.begun = True

    def info(self, *lines: str) -> None:
        """Log lines."""
        self._task.say(*(f"INFO: {line}" for line in lines))
        self._note("INFO", *lines)

    def warn(self, line: str) -> None:
        """Log a warning. The task will end with `WARNINGS: N`."""
        self._task.warn(line)
        self._note("WARN", line)

    def error(self, text: str) -> None:
        """Log an error."""
        lines = text.split("\n")
        self._task.say(*(f"ERROR: {line}" for line in lines))
        self._note("ERROR", *lines)

    def _note(self, level: str, *lines: str) -> None:
        if self.begun:
            self._lines += [f"{local_time()} {level}: {line}" for line in lines]


def local_time() -> str:
    """Return the time as vzdump prints it."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def require_valid_template(template: str) -> None:
    """Raise Proxmox's parameter error if the template has a line feed, an unknown escape or an unknown variable."""
    if "\n" in template:
        raise ParameterError({"notes-template": "contains a line feed"})
    problems = [
        f"escape sequence '\\{found[1]}' at char {found.start()}"
        for found in _ESCAPE.finditer(template)
        if found[1] not in "n\\"
    ]
    problems += [
        # Proxmox counts to the end of the match, less the length of the name.
        f"variable '{found[1]}' at char {found.end() - len(found[1])}"
        for found in _VARIABLE.finditer(template)
        if found[1] not in _VARIABLES
    ]
    if problems:
        raise ParameterError({"notes-template": f"found unknown: {', '.join(problems)}\n"})


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return the notes of a backup: the template with its escapes and variables replaced."""
    text = _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], template)
    return re.sub(rf"\{{\{{({'|'.join(values)})\}}\}}", lambda found: values[found[1]], text)
