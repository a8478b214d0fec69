"""A person who answers from a list: the conversation with them is a transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddock.setup.questions import Conversation


class Script:
    """Answers prompts in turn, and records what a terminal would show. The end of the answers is the end of input."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.lines: list[str] = []

    def line(self, prompt: str) -> str:
        answer = self._next(prompt)
        self.lines.append(prompt + answer)
        return answer

    def hidden(self, prompt: str) -> str:
        answer = self._next(prompt)
        self.lines.append(prompt)
        return answer

    def _next(self, prompt: str) -> str:
        if not self._answers:
            self.lines.append(prompt)
            raise EOFError
        answer = self._answers.pop(0)
        if answer == "^C":
            self.lines.append(prompt)
            raise KeyboardInterrupt
        return answer

    def tell(self, line: str) -> None:
        self.lines.append(line)

    @property
    def transcript(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def all_used(self) -> bool:
        return not self._answers


def conversation(answers: Sequence[str] | None, given: Mapping[str, str] | None = None) -> tuple[Conversation, Script]:
    """Return a conversation with a person, or without a terminal if there are no answers."""
    script = Script(answers or ())
    return Conversation(given or {}, None if answers is None else script, script.tell), script
