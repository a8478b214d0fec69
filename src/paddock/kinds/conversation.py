"""Conversations with an agent over its API: the requests, and the meaning of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from paddock.base.frozen import frozen
from paddock.kinds.workload import Answer, Request

CHAT = "chat-"  # how ids of sessions begin that `paddock chat` has begun
ONE_SHOT = "paddock-"  # and those for a single question of `ask` or `verify`

# The decisions about actions that the agent may not take by itself, as `Approval.choices` names them.
ONCE, SESSION, ALWAYS, DENY = "once", "session", "always", "deny"


@frozen
class Session:
    """A conversation that the agent keeps."""

    id: str
    title: str  # the agent's title, or the beginning of the first message
    origin: str  # where it was begun: the API, or the name of a messenger
    messages: int
    active: float  # time of the last message, in seconds since the epoch
    ours: bool  # begun by `paddock chat`


@frozen
class Past:
    """The messages of a session so far. The agent may have given the session another id meanwhile."""

    session: str
    messages: Sequence[Mapping[str, str]] = ()  # role and content


@frozen
class Said:
    """A piece of the answer."""

    text: str


@frozen
class Working:
    """The agent uses a tool."""

    tool: str
    detail: str


@frozen
class ToolFailed:
    """A tool of the agent reported an error."""

    tool: str


@frozen
class Approval:
    """The agent wants to do something that a person has to approve. It waits for the decision."""

    command: str
    reason: str
    choices: Sequence[str]
    pattern: str  # names the kind of such commands, for which a decision may hold


@frozen
class Completed:
    """The answer is complete."""

    text: str


@frozen
class Failed:
    """There is no answer, or it is incomplete."""

    reason: str


@frozen
class Stopped:
    """The agent stopped its answer after a request to stop."""


Event = Said | Working | ToolFailed | Approval | Completed | Failed | Stopped


class Unexpected(ValueError):
    """An answer of the API that does not have the expected form."""


class Conversation(Protocol):
    """The requests of a conversation, and the readers of their answers. Readers raise ``Unexpected``. Pure."""

    def sessions(self, offset: int) -> Request:
        """Return the request for a list of sessions, the newest first."""

    def listed(self, answer: Answer) -> tuple[Sequence[Session], int | None]:
        """Return the sessions in the answer, without those for a single question, and the offset of the next ones."""

    def past(self, session: str) -> Request:
        """Return the request for the messages of a session."""

    def remembered(self, answer: Answer) -> Past | None:
        """Return the messages in the answer; None if there is no such session."""

    def say(self, text: str, past: Past) -> Request:
        """Return the request that begins an answer."""

    def begun(self, answer: Answer) -> str:
        """Return the id of the answer that was begun."""

    def events(self, answer_id: str) -> Request:
        """Return the request for a stream of events about an answer."""

    def event(self, line: str) -> Event | None:
        """Return the event in a line of the stream, if it has one."""

    def decide(self, answer_id: str, choice: str) -> Request:
        """Return the request that sends the decision about the oldest open approval."""

    def decided(self, answer: Answer) -> bool:
        """Return whether the decision came in time."""

    def stop(self, answer_id: str) -> Request:
        """Return the request that stops an answer."""
