"""Hold a conversation with an agent: its sessions, its answers as they arrive, and approvals of its requests."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.core.channel import Channel, Part, Parts, channel
from paddock.core.deployment import Deployment
from paddock.core.observe import expect_own_id, expect_running, observe, reach
from paddock.core.resolve import locate
from paddock.kinds.conversation import Completed, Conversation, Event, Failed, Past, Session, Stopped, Unexpected
from paddock.show.table import columns

_STOP_SECONDS: Final = 15.0  # how long to wait for an answer to stop
_ABANDON_SECONDS: Final = 3.0
_PAGES: Final = 50  # how many lists of sessions are read
_INTERRUPT: Final[Part] = {"interrupt": True}


class ChatOf:
    """A conversation with one agent, over an open channel to its machine."""

    def __init__(self, agent: Deployment, channel: Channel, conversation: Conversation) -> None:
        self._agent = agent
        self._channel = channel
        self._conversation = conversation

    def sessions(self) -> Iterator[Session]:
        """Yield the agent's sessions, the newest first; those for a single question are left out."""
        offset: int | None = 0
        for _ in range(_PAGES):
            if offset is None:
                return
            with self._understood():
                found, offset = self._conversation.listed(self._channel.ask(self._conversation.sessions(offset)))
            yield from found

    def newest(self) -> Past:
        """Return the newest session of `paddock chat`."""
        found = next((session for session in self.sessions() if session.ours), None)
        if found is None:
            raise BadInput(f"{self._agent.name} has no session to continue", hint="leave --continue out to begin one")
        return self.past(found.id)

    def past(self, session: str) -> Past:
        """Return the messages of a session."""
        found = self._read(session)
        if found is None:
            hint = f"`paddock sessions {self._agent.name}` lists them"
            raise BadInput(f"{self._agent.name} has no session {session!r}", hint=hint)
        return found

    def now(self, past: Past) -> Past:
        """Return the messages of a session by now. The session may not exist yet."""
        return self._read(past.session) or Past(past.session)

    def _read(self, session: str) -> Past | None:
        with self._understood():
            return self._conversation.remembered(self._channel.ask(self._conversation.past(session)))

    def say(self, text: str, past: Past) -> Reply:
        """Begin an answer to a text."""
        with self._understood():
            run = self._conversation.begun(self._channel.ask(self._conversation.say(text, past)))
        return Reply(run, self._conversation, self._channel, self._channel.stream(self._conversation.events(run)))

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except Unexpected as error:
            raise PaddockError(f"{self._agent.name} cannot be talked to: {error}") from None


@frozen
class Reply:
    """An answer that arrives."""

    id: str
    conversation: Conversation
    channel: Channel
    parts: Parts

    def events(self) -> Iterator[Event]:
        """Yield the events of the answer; the last one is Completed, Failed or Stopped."""
        end: float | None = None
        while True:
            try:
                part = self.parts.get(timeout=None if end is None else max(end - time.monotonic(), 0))
            except queue.Empty:
                yield Failed("it did not stop")
                return
            if part is _INTERRUPT:
                self.channel.stream(self.conversation.stop(self.id), stream=False)
                end = time.monotonic() + _STOP_SECONDS
                continue
            event = self._event(self.channel.checked(part))
            if event is not None:
                yield event
            if isinstance(event, Completed | Failed | Stopped):
                return

    def _event(self, part: Part) -> Event | None:
        if part.get("end"):
            return Failed("the answer ended early")
        try:
            return self.conversation.event(str(part.get("line", "")))
        except Unexpected as error:
            return Failed(str(error))

    def interrupt(self) -> None:
        """Stop the answer. May be called by a signal handler; `events` then yields the end."""
        self.parts.put(_INTERRUPT)

    def abandon(self) -> None:
        """Stop the answer without waiting for its end, because nobody listens any more."""
        stopped = self.channel.stream(self.conversation.stop(self.id), stream=False)
        with suppress(queue.Empty):
            stopped.get(timeout=_ABANDON_SECONDS)

    def decide(self, choice: str) -> bool:
        """Tell the agent a decision; return whether it came in time."""
        try:
            return self.conversation.decided(self.channel.ask(self.conversation.decide(self.id, choice)))
        except Unexpected:
            return False


@contextmanager
def chatting(agent: Deployment) -> Iterator[ChatOf]:
    """Open a conversation with a running agent."""
    located = locate(agent)
    conversation = located.recipe.conversation(located.spec)
    if conversation is None:
        raise BadInput(f"{agent.name} is a {agent.spec.kind}, which holds no conversations")
    seen = expect_running(located, expect_own_id(located, observe(located)))
    with channel(reach(located, seen), located.runtime) as opened:
        yield ChatOf(agent, opened, conversation)


def new_session(prefix: str) -> Past:
    """Return a session that does not exist yet. The agent creates it with the first answer."""
    return Past(f"{prefix}{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")


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
