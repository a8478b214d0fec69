"""The log of a backup. It goes to the task and, with times, into a file beside the archive."""

from __future__ import annotations

import time

from pvebox.tasks import Task


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
