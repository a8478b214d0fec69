"""Questions to a person: each can be answered by a flag, by its default, or on the terminal."""

from __future__ import annotations

import getpass
import select
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen

T = TypeVar("T")
_WIDTH: Final = 79


@frozen
class Choice:
    """A possible answer, with a few words about it."""

    value: str
    about: str = ""


@frozen
class Question:
    """A question, the flag that answers it, and its default answer."""

    flag: str
    subject: str  # a name for the answer, in two or three words
    text: str
    default: str | None = None
    choices: Sequence[Choice] = ()
    others: str = ""  # other answers than the choices, in a word
    secret: bool = False

    @property
    def values(self) -> list[str]:
        return [choice.value for choice in self.choices]


class Terminal(Protocol):
    """Where questions are asked. Both return a line without its end, and raise EOFError at the end of the input."""

    def line(self, prompt: str) -> str: ...

    def hidden(self, prompt: str) -> str:
        """Read a line without showing it."""


class Stopped(PaddockError):
    """The person ended the conversation."""


class EarlierAnswer(PaddockError):
    """The answer to an earlier question is wrong, so that one has to be asked again."""

    def __init__(self, question: Question, error: PaddockError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.question = question


@dataclass
class Conversation:
    """Asks questions in turn. Without a terminal, a question without an answer in ``given`` takes its default.

    ``given`` has the answers of flags. ``tell`` prints a line for the person.
    """

    given: Mapping[str, str]
    terminal: Terminal | None
    tell: Callable[[str], None]
    asked: int = field(default=0, init=False)  # how often the person had to answer

    def ask(self, question: Question, check: Callable[[str], T]) -> T:
        """Return what ``check`` makes of the answer. On a terminal a wrong answer is explained, and asked for again."""
        if question.flag in self.given:
            return self._checked(question, self.given[question.flag], check)
        if self.terminal is None:
            if question.default is None:
                raise missing(question)
            self.tell(f"{question.subject}: {question.default} (by default; {question.flag} chooses another)")
            return self._checked(question, question.default, check)
        self._introduce(question)
        while True:
            answer = self._read(question)
            try:
                return check(self._chosen(question, answer))
            except (Stopped, EarlierAnswer):
                raise
            except PaddockError as error:
                self.explain(error)

    def choose(self, question: Question, check: Callable[[str], T]) -> T:
        """Ask a question with choices. A single choice is taken without a question, and printed."""
        if question.flag not in self.given and len(question.choices) == 1 and not question.others:
            self.tell(f"{question.subject}: {question.choices[0].value} (the only one)")
            return check(question.choices[0].value)
        return self.ask(question, check)

    def reject(self, error: EarlierAnswer) -> None:
        """Explain why an earlier answer was wrong. Where it cannot be asked for again, raise an error."""
        if error.question.flag in self.given or self.terminal is None:
            raise named(error.question, error)
        self.explain(error)

    def explain(self, error: PaddockError) -> None:
        """Print an error, and its hint."""
        for text in filter(None, (error.message, error.hint)):
            self.say(text, indent="  ")

    def say(self, text: str, indent: str = "", below: str | None = None) -> None:
        """Print a sentence in lines that fit a narrow terminal. Words, like paths and URLs, are never broken.

        ``below`` is the indent of all lines but the first, if it is another one.
        """
        rest = indent if below is None else below
        wrapper = textwrap.TextWrapper(_WIDTH, indent, rest, break_long_words=False, break_on_hyphens=False)
        for line in wrapper.wrap(text):
            self.tell(line)

    def _introduce(self, question: Question) -> None:
        self.tell("")
        if not question.choices:
            return
        self.tell(question.text)
        width = max(len(value) for value in question.values)
        for number, choice in enumerate(question.choices, 1):
            head = f"  {number}  {choice.value:<{width}}  "
            self.say(choice.about or choice.value, head if choice.about else f"  {number}  ", " " * len(head))

    def _read(self, question: Question) -> str:
        assert self.terminal is not None  # noqa: S101  asked before
        self.asked += 1
        words = question.text
        if question.choices:
            words = f"Number, name or {question.others}" if question.others else "Number or name"
        shown = f" [{question.default}]" if question.default else ""
        read = self.terminal.hidden if question.secret else self.terminal.line
        try:
            typed = read(f"{words}{shown}: ").strip()
        except EOFError:
            raise Stopped("the input ended before all questions were answered; nothing was written") from None
        return typed or question.default or ""

    def _chosen(self, question: Question, answer: str) -> str:
        """Return the value of a numbered choice; other answers as they are."""
        values = question.values
        if answer.isdecimal() and 1 <= int(answer) <= len(values):
            return values[int(answer) - 1]
        return self._allowed(question, answer)

    def _allowed(self, question: Question, answer: str) -> str:
        if not answer:
            raise BadInput("an answer is needed here")
        if question.choices and not question.others and answer not in question.values:
            raise BadInput(f"{answer} is not one of {', '.join(question.values)}")
        return answer

    def _checked(self, question: Question, answer: str, check: Callable[[str], T]) -> T:
        try:
            return check(self._allowed(question, answer))
        except (Stopped, EarlierAnswer):
            raise
        except PaddockError as error:
            raise named(question, error) from None


def missing(question: Question) -> BadInput:
    """Return the error for a question that nobody can answer."""
    subject = f"{question.subject[0].lower()}{question.subject[1:]}"
    return BadInput(f"the {subject} is missing: give it with {question.flag}", hint=_NO_TERMINAL)


_NO_TERMINAL: Final = "on a terminal, without --yes, `paddock init` asks"


def named(question: Question, error: PaddockError) -> PaddockError:
    """Return the error with the flag whose value is wrong."""
    return BadInput(f"{question.flag}: {error.message}", hint=error.hint)


class OwnTerminal:
    """Asks on the terminal that ``paddock`` was started on."""

    def line(self, prompt: str) -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        # Python would notice a Ctrl-C just before the read only after it.
        # A terminal gives single lines, so that none is in a buffer.
        while not select.select([sys.stdin], [], [], 0.5)[0]:
            pass
        typed = sys.stdin.readline()
        if not typed:
            sys.stderr.write("\n")
            raise EOFError
        return typed.rstrip("\r\n")

    def hidden(self, prompt: str) -> str:
        return getpass.getpass(prompt, sys.stderr)


def own_terminal() -> OwnTerminal | None:
    """Return the terminal, or None if nobody can be asked."""
    return OwnTerminal() if sys.stdin.isatty() and sys.stderr.isatty() else None
