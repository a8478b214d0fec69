"""Tell the command or the URL that the file names of failures that nobody is watching."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from paddock import process
from paddock.errors import PaddockError
from paddock.process import CommandFailed
from paddock.run.deployment import Deployment
from paddock.run.reporter import AgentReporter
from paddock.secret import Secret, mask
from paddock.spec.notify import NotifySpec
from paddock.visible import one_line, visible

_COMMAND_SECONDS: Final = 30.0
_URL_SECONDS: Final = 10.0  # to connect, and again to answer
_LONGEST: Final = 2000


def failed(agent: Deployment, what: str, why: str) -> None:
    """Tell that a backup or a drill of an agent has failed. A notification that fails is reported, never raised."""
    _tell_of(agent, f"{what} failed", why)


def overdue(agent: Deployment, why: str) -> None:
    """Tell that the newest backup of an agent is too old."""
    _tell_of(agent, "backup overdue", why)


@contextmanager
def failures_of(agent: Deployment, what: str) -> Iterator[None]:
    """Tell of an error that leaves the context; the error goes on."""
    try:
        yield
    except Exception as error:
        failed(agent, what, str(error) or type(error).__name__)
        raise


def _tell_of(agent: Deployment, event: str, why: str) -> None:
    tell(agent.notify, agent.folder, agent.reporter, project=agent.project, agent=agent.name, event=event, why=why)


def tell(
    spec: NotifySpec | None,
    folder: Path,
    reporter: AgentReporter,
    *,
    project: str,
    agent: str | None,
    event: str,
    why: str,
) -> None:
    """Send one message, if the file says where. Without an agent it is about all agents of the project."""
    if spec is None:
        return
    whom = f"{agent} (project {project})" if agent else f"project {project}"
    shown = visible(mask(why))[:_LONGEST]
    message = {
        "event": event,
        "project": project,
        "agent": agent,
        "why": shown,
        "text": f"{whom}: {event}: {shown}",
        "host": socket.gethostname(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        _send(spec, folder, json.dumps(message).encode())
    except PaddockError as error:
        # The failure that the message was about is what counts; it must not be hidden by this one.
        reporter.say(f"nobody was notified of this: {error.message}")
        reporter.journal("notify", about=event, error=error.message)
    else:
        reporter.journal("notify", about=event)


def _send(spec: NotifySpec, folder: Path, message: bytes) -> None:
    if spec.command is not None:
        _run(spec.command, folder, message)
    elif spec.url is not None:
        _post(spec.url.read(folder), message)


def _run(command: list[str], folder: Path, message: bytes) -> None:
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
