"""Whether a restored agent recalls what it had learned: facts of a backup, questions for them, and answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from paddock.run.standin import digest
from paddock.stream.layout import matcher

_SHORTEST, _LONGEST = 8, 500
_MOST: Final = 3
_WORD: Final = re.compile(r"\w+")
_ENOUGH: Final = 0.8  # of a line's words; a model may change the form of a line


def facts(texts: Mapping[str, str], recalled: Sequence[str], documents: Sequence[str]) -> list[str]:
    """Return lines of a backup that its agent puts before its model, the longest first.

    Lines of ``documents`` do not count: the file gives them to every agent.
    """
    wanted = matcher(list(recalled))
    given = {line.strip() for text in documents for line in text.split("\n")}
    lines = (line.strip() for path, text in texts.items() if wanted.fullmatch(path) for line in text.split("\n"))
    usable = {line for line in lines if _SHORTEST <= len(line) <= _LONGEST and "\ufffd" not in line} - given
    return sorted(usable, key=lambda line: (-len(line), line))[:_MOST]


def question(fact: str, *, real_model: bool) -> str:
    """Return a question whose answer is a fact, and that does not contain it."""
    if real_model:
        return "Without using any tool, repeat every entry of your memory and of your user profile, word for word."
    return f"Repeat the line of your instructions with the SHA-256 {digest(fact)}."


def is_recalled(fact: str, answer: str, *, real_model: bool) -> bool:
    """Whether an answer contains a fact. A real model may change its form, but no number in it."""
    wanted, said = set(_WORD.findall(fact.lower())), set(_WORD.findall(answer.lower()))
    if not real_model or not wanted:
        return fact in answer
    numbers = {word for word in wanted if any(letter.isdigit() for letter in word)}
    return numbers <= said and len(wanted & said) >= _ENOUGH * len(wanted)
