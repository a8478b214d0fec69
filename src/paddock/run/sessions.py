"""The conversations that an agent keeps, as a table or as data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from paddock.recipes.conversation import Session
from paddock.run.chat import chatting
from paddock.run.deployment import Deployment
from paddock.run.table import columns
from paddock.visible import one_line


def newest(agent: Deployment, most: int) -> Sequence[Session]:
    """Return the newest sessions of a running agent."""
    with chatting(agent) as chat:
        return list(islice(chat.sessions(), most))


def table(sessions: Sequence[Session]) -> str:
    """Return the sessions as a table."""
    if not sessions:
        return "no sessions yet"
    head = ("SESSION", "LAST MESSAGE", "FROM", "MESSAGES", "ABOUT")
    rows = [(each.id, _time(each), each.origin, str(each.messages), one_line(each.title, 60)) for each in sessions]
    return columns([head, *rows])


def as_data(session: Session) -> dict[str, Any]:
    """Return a session for `--json`."""
    return {
        "id": session.id,
        "last_message": _when(session).isoformat(),
        "from": session.origin,
        "messages": session.messages,
        "about": session.title,
    }


def _time(session: Session) -> str:
    return f"{_when(session).astimezone():%Y-%m-%d %H:%M}"


def _when(session: Session) -> datetime:
    """Return the time of the last message. The agent may claim any number."""
    try:
        return datetime.fromtimestamp(session.active, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
