"""A conversation with an agent at the person's terminal, or line by line without one.

The agent's text is printed through the streams that mask secrets and make control characters visible. On a terminal it
is indented, and Paddock's own lines have colours, which no text of the agent can have.
"""

from __future__ import annotations

import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Final

from paddock.base.errors import PaddockError
from paddock.base.secret import unfinished
from paddock.base.text import one_line
from paddock.core.ask import expect_words
from paddock.core.deployment import Deployment
from paddock.kinds.conversation import (
    ALWAYS,
    CHAT,
    DENY,
    ONCE,
    ONE_SHOT,
    SESSION,
    Approval,
    Completed,
    Failed,
    Past,
    Said,
    Stopped,
    ToolFailed,
    Working,
)
from paddock.show.reporter import AgentReporter
from paddock.verbs.chat import ChatOf, Reply, chatting, new_session

QUIT: Final = "/quit"
_INTERRUPTED: Final = 130
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MEANING: Final = {ONCE: "once", SESSION: "in this session", ALWAYS: "always", DENY: "deny"}


def talk(agent: Deployment, session: str | None, *, newest: bool, terminal: bool) -> None:
    """Hold a conversation with a running agent, in a new session or in one that it has."""
    with ctrl_c_stays_here(), chatting(agent) as chat:
        continued = chat.newest() if newest else chat.past(session) if session is not None else None
        past = continued or new_session(CHAT)
        if terminal:
            agent.reporter.say(f"session {one_line(past.session)}; Ctrl-C stops an answer, Ctrl-D or {QUIT} ends")
            for message in past.messages[-2:]:
                who = agent.name if message["role"] == "assistant" else "you"
                agent.reporter.say(f"{who}: {one_line(message['content'], 500)}")
        spoken = Dialogue(agent.name, chat, agent.reporter, terminal=terminal).hold(past)
        if terminal and spoken:
            agent.reporter.say(f"to continue: paddock chat {agent.name} --session {one_line(spoken)}")


def ask_streaming(agent: Deployment, prompt: str) -> int:
    """Print an answer while it arrives; return the exit code."""
    expect_words(prompt)
    with ctrl_c_stays_here(), chatting(agent) as chat:
        outcome = Dialogue(agent.name, chat, agent.reporter, terminal=False).answer(prompt, new_session(ONE_SHOT))
    if isinstance(outcome, Failed):
        raise PaddockError(f"{agent.name} did not answer: {one_line(outcome.reason)}")
    return _INTERRUPTED if isinstance(outcome, Stopped) else 0


class Dialogue:
    """The conversation of one person with one agent."""

    def __init__(self, name: str, chat: ChatOf, reporter: AgentReporter, *, terminal: bool) -> None:
        self._name = name
        self._chat = chat
        self._reporter = reporter
        self._terminal = terminal
        self._approved: set[str] = set()  # patterns that are approved in this session

    def hold(self, past: Past) -> str | None:
        """Read what the person says, and print the answers, until the person ends it.

        Returns the session's id, if something was said in it.
        """
        known, spoken = True, None
        for text in _typed() if self._terminal else map(str.rstrip, sys.stdin):
            if text.strip() == QUIT:
                break
            if not text.strip():
                continue
            # Read before each answer: a messenger may continue a session too, and the agent may shorten it.
            past, known = past if known else self._chat.now(past), False
            outcome, spoken = self.answer(text, past), past.session
            if isinstance(outcome, Failed):
                self._failed(outcome)
        return spoken

    def _failed(self, outcome: Failed) -> None:
        error = PaddockError(f"{self._name} did not answer: {one_line(outcome.reason)}")
        if not self._terminal:
            raise error
        self._reporter.warn(error.message)

    def answer(self, text: str, past: Past) -> Completed | Failed | Stopped:
        """Say something, print the answer as it arrives, and return how it ended."""
        reply = self._chat.say(text, past)
        try:
            with _interrupts(reply):
                return self._shown(reply)
        except (KeyboardInterrupt, SystemExit):  # the second Ctrl-C, or the terminal was closed
            reply.abandon()
            raise

    def _shown(self, reply: Reply) -> Completed | Failed | Stopped:
        page = _Page(indented=self._terminal)
        for event in reply.events():
            if isinstance(event, Said):
                page.write(event.text)
                continue
            if isinstance(event, Completed):
                page.complete(event.text)
                return event
            page.end_line()
            match event:
                case Working(tool, detail):
                    self._reporter.say(one_line(f"· {tool}: {detail}" if detail else f"· {tool}", 200))
                case ToolFailed(tool):
                    self._reporter.say(one_line(f"· {tool} failed", 200))
                case Approval():
                    self._decide(reply, event)
                case Stopped():
                    self._reporter.say("stopped")
                    return event
                case Failed():
                    return event
        return Failed("the answer ended early")

    def _decide(self, reply: Reply, approval: Approval) -> None:
        """Ask the person about something that the agent wants to do, and tell the agent."""
        self._reporter.warn(f"{self._name} asks for approval: {one_line(approval.reason, 500)}")
        # The whole command, however long: nobody approves what they have not seen.
        self._reporter.warn(f"    {approval.command}")
        choice: str | None
        if SESSION in approval.choices and approval.pattern in self._approved:
            choice = SESSION
            self._reporter.say("approved, as before in this session")
        elif self._terminal:
            choice = self._asked(approval)
        else:
            choice = DENY
            self._reporter.say(f"denied: nobody is asked without a terminal; `paddock chat {self._name}` asks")
        if choice is None:
            reply.interrupt()  # which also denies it
            return
        in_time = reply.decide(choice)
        if not in_time and choice != DENY:
            self._reporter.warn(f"too late: {self._name} does not wait for the decision any more")
        elif choice == SESSION:
            # Hermes forgets this with the end of the answer.
            self._approved.add(approval.pattern)
        elif choice == ALWAYS:
            shown = one_line(approval.pattern, 200)
            self._reporter.say(
                f"approved until {self._name} is restarted; to keep it, write settings.command_allowlist: [{shown!r}]"
            )

    def _asked(self, approval: Approval) -> str | None:
        """Return the person's decision; None after Ctrl-C, which stops the whole answer."""
        offered = {choice[0]: choice for choice in approval.choices}
        shown = ", ".join(f"[{letter}] {_MEANING[choice]}" for letter, choice in offered.items())
        while True:
            try:
                with _handling(signal.default_int_handler):
                    _discard_typed()
                    said = input(f"{shown}: ").strip().lower()
            except EOFError:
                print()
                return DENY
            except KeyboardInterrupt:
                print()
                return None
            if found := offered.get(said) or (said if said in offered.values() else None):
                return found


class _Page:
    """Prints an answer in pieces, so that a secret in two pieces is masked too."""

    def __init__(self, *, indented: bool) -> None:
        self._indent = "  " if indented else ""
        self._held = ""
        self._in_line = False
        self._printed = False  # whether something was said since the last tool

    def write(self, piece: str) -> None:
        self._held += piece
        if not self._printed:
            self._held = self._held.lstrip("\n")  # Hermes sends empty lines after a tool
        ready = len(self._held) - unfinished(self._held)
        self._print(self._held[:ready])
        self._held = self._held[ready:]

    def end_line(self) -> None:
        """Print the text that is held back, and begin a new line."""
        self._print(self._held)
        self._held = ""
        if self._in_line:
            self._print("\n")
        self._printed = False

    def complete(self, whole: str) -> None:
        """Print the answer if none of it was sent in pieces, and end the line."""
        if not self._printed and not self._held.strip():
            self.write(whole)
        self.end_line()

    def _print(self, text: str) -> None:
        for line in _LINE.findall(text):
            start = self._indent if not self._in_line and line.strip() else ""
            print(start + line, end="")
            self._in_line = not line.endswith("\n")
            self._printed = self._printed or bool(line.strip())
        sys.stdout.flush()


def _typed() -> Iterator[str]:
    """Yield the lines that a person types, until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  gives `input` an editor and a history
    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print(f"\n(Ctrl-D or {QUIT} ends the conversation)")


def _discard_typed() -> None:
    """Discard input that was typed before a question was visible."""
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _interrupts(reply: Reply) -> AbstractContextManager[None]:
    """Let the first Ctrl-C stop the answer, and the second one end the conversation."""
    pressed = False

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        reply.interrupt()

    return _handling(interrupted)


def ctrl_c_stays_here() -> AbstractContextManager[None]:
    """Let Ctrl-C raise KeyboardInterrupt without ending the connection to the machine."""
    return _handling(signal.default_int_handler)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
