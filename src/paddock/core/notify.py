"""Tell the command or the URL that the file names of failures that nobody is watching."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from paddock.base import clock, process
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed
from paddock.base.secret import Secret, mask
from paddock.base.text import one_line, visible
from paddock.core.deployment import Deployment
from paddock.file.load import Loaded
from paddock.file.models.whole import NotifySpec
from paddock.file.secrets.allowed import expect_allowed
from paddock.show.reporter import AgentReporter, Reporter

_COMMAND_SECONDS: Final = 30.0
_URL_SECONDS: Final = 10.0  # to connect, and again to answer
_LONGEST: Final = 2000


@frozen
class Notifier:
    """Sends messages about one agent, if the file says where. A message that cannot be sent raises no error."""

    spec: NotifySpec | None
    folder: Path  # of the file
    project: str
    agent: str
    reporter: AgentReporter

    @classmethod
    def of(cls, agent: Deployment) -> Self:
        """Return the notifier for an agent that is open."""
        return cls(agent.notify, agent.folder, agent.project, agent.name, agent.reporter)

    @classmethod
    def of_agent(cls, loaded: Loaded, name: str, reporter: Reporter) -> Self:
        """Return the notifier for an agent of a file, which may be impossible to open."""
        return cls(loaded.spec.notify, loaded.folder, loaded.spec.project, name, reporter.of(name))

    def failed(self, what: str, why: str) -> None:
        """Tell that something has failed, such as a backup or a drill."""
        self._tell(f"{what} failed", why)

    def overdue(self, why: str) -> None:
        """Tell that the newest backup is too old."""
        self._tell("backup overdue", why)

    @contextmanager
    def failures(self, what: str) -> Iterator[None]:
        """Tell of an error that leaves the context. The error goes on."""
        try:
            yield
        except SystemExit:  # a signal, for example because systemd's time for the service is over
            self.failed(what, "it was ended before it was complete")
            raise
        except Exception as error:
            self.failed(what, str(error) or type(error).__name__)
            raise

    def _tell(self, event: str, why: str) -> None:
        if self.spec is None:
            return
        shown = visible(mask(why))[:_LONGEST]
        message = {
            "event": event,
            "project": self.project,
            "agent": self.agent,
            "why": shown,
            "text": f"{self.agent} (project {self.project}): {event}: {shown}",
            "host": socket.gethostname(),
            "at": clock.now().isoformat(timespec="seconds"),
        }
        try:
            _send(self.spec, self.folder, json.dumps(message).encode())
        except PaddockError as error:
            # The failure that the message is about must not be hidden by this one.
            self.reporter.say(f"nobody was notified of this: {error.message}")
            self.reporter.journal("notify", about=event, error=error.message)
        else:
            self.reporter.journal("notify", about=event)


def _send(spec: NotifySpec, folder: Path, message: bytes) -> None:
    if spec.command is not None:
        _run(spec.command, folder, message)
    elif spec.url is not None:
        _post(spec.url.read(folder), message)


def _run(command: list[str], folder: Path, message: bytes) -> None:
    expect_allowed(command)
    program = command[0] if "/" not in command[0] else str(folder / Path(command[0]).expanduser())
    result = process.run([program, *command[1:]], stdin=message, deadline=_COMMAND_SECONDS, own_session=True)
    if not result.ok:
        raise CommandFailed("the command in `notify`", result)


def _post(url: Secret, message: bytes) -> None:
    import httpx

    if not url.reveal().startswith(("https://", "http://")):
        raise PaddockError("the value of `notify.url` is not a URL")
    headers = {"Content-Type": "application/json"}
    try:
        # The body of the answer is not read: nothing depends on it.
        with httpx.stream("POST", url.reveal(), content=message, headers=headers, timeout=_URL_SECONDS) as answer:
            if not answer.is_success:
                raise PaddockError(f"the URL in `notify` answered {answer.status_code}")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = one_line(str(error), 200) or type(error).__name__
        raise PaddockError(f"the URL in `notify` cannot be reached: {why}") from None
