"""The systemd units of a schedule. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from paddock.errors import BadInput
from paddock.frozen import frozen

# systemd would replace $ and %, and a line break would begin another setting.
_PLAIN: Final = re.compile(r"[^$%\"'\\\x00-\x1f\x7f]+")


def name_for(project: str) -> str:
    """Return the name of both units of a project, without the suffix."""
    return f"paddock-backup-{project}"


def header_for(file: str) -> str:
    """Return the first line of the units for a file. It tells which file they are for."""
    return f"# Written by `paddock schedule` for {file}"


@frozen
class Timer:
    """A timer that backs up the agents of a file, as one service unit and one timer unit."""

    project: str
    command: Sequence[str]  # Paddock itself
    files: Sequence[str]  # absolute paths
    sets: Sequence[str]
    folder: str  # of the file
    at: str  # when, as systemd writes it
    environment: str  # the file with the variables of the service
    system: bool  # of the whole machine, run by root; otherwise of an account

    def __post_init__(self) -> None:
        for word in (*self.argv, self.folder, self.at, self.environment):
            if not _PLAIN.fullmatch(word):
                raise BadInput(f"{word!r} cannot be part of a schedule: systemd would change $, %, quotes and \\")

    @property
    def name(self) -> str:
        """The name of both units, without the suffix."""
        return name_for(self.project)

    @property
    def trial_name(self) -> str:
        """The name of the unit of a trial."""
        return f"{self.name}-trial.service"

    @property
    def argv(self) -> list[str]:
        """What the service runs."""
        words = (word for file in self.files for word in ("--file", file))
        sets = (word for each in self.sets for word in ("--set", each))
        return [*self.command, "schedule", "run", *words, *sets]

    @property
    def header(self) -> str:
        """The first line of both units. It tells which file they are for."""
        return header_for(self.files[0])

    def units(self) -> dict[str, str]:
        """Return the texts of the units by name."""
        return {f"{self.name}.service": self._service(), f"{self.name}.timer": self._timer()}

    def trial(self, output: str) -> list[str]:
        """Return the command that runs the service once with the settings of its unit, and its output in a file.

        It waits until a service of this type has ended. To wait with --pipe needs a D-Bus of the account, which may not
        be installed.
        """
        scope = [] if self.system else ["--user"]
        properties = [f"--property={line}" for line in (*self._settings(), f"StandardOutput=file:{output}")]
        return [
            "systemd-run",
            *scope,
            "--collect",
            "--quiet",
            f"--unit={self.trial_name}",
            *properties,
            "--",
            *self.argv,
        ]

    def _settings(self) -> Iterator[str]:
        """Yield the settings of the service. The unit and the trial share them, so that the trial proves the unit."""
        yield "Type=oneshot"
        if self.system:
            yield "User=root"  # with a user, systemd sets HOME
        yield f"WorkingDirectory={self.folder}"
        yield f"EnvironmentFile=-{self.environment}"
        yield "UMask=0077"
        yield "Nice=10"
        yield "TimeoutStartSec=1d"

    def _service(self) -> str:
        online = ["Wants=network-online.target", "After=network-online.target"] if self.system else []
        lines = [
            self.header,
            "[Unit]",
            f"Description=Back up the agents of project {self.project}",
            *online,
            "",
            "[Service]",
            *self._settings(),
            f"ExecStart={' '.join(_quoted(word) for word in self.argv)}",
        ]
        return "\n".join(lines) + "\n"

    def _timer(self) -> str:
        lines = [
            self.header,
            "[Unit]",
            f"Description=Back up the agents of project {self.project}, {self.at}",
            "",
            "[Timer]",
            f"OnCalendar={self.at}",
            "Persistent=true",
            "RandomizedDelaySec=10m",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ]
        return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    return f'"{word}"' if re.search(r"[^\w./:=@,+-]", word) else word
