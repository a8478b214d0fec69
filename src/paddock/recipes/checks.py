"""What is asked of a running agent, by its own user and on its machine, and how the recipe judges what is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.recipes.workload import OpenPort, Request, Verdict


@dataclass(frozen=True)
class ReadFile:
    """A file of the agent; judged as its JSON, else as its text, and as None where it is not there."""

    path: str


@dataclass(frozen=True)
class Databases:
    """SQLite databases, checked in place beside whoever writes to them; judged as ``{path: what SQLite says}``."""

    below: str
    patterns: Sequence[str]


@dataclass(frozen=True)
class Attempt:
    """A program run as the agent would; judged as its exit code, output and complaints (``code``, ``out``, ``err``)."""

    argv: Sequence[str]
    seconds: float = 30.0


@dataclass(frozen=True)
class WriteInto:
    """A folder the agent must be able to write to."""

    folder: str


Question = Request | ReadFile | Databases | Attempt | OpenPort | WriteInto


@dataclass(frozen=True)
class Check:
    """One thing that must hold. Of a request an ``Answer`` is judged; a question without any answer does not hold."""

    name: str
    question: Question
    judge: Callable[[Any], Verdict]
    hint: str  # what a person can do when it does not hold
    needs: str | None = None  # a check without which this one says nothing
    settles: bool = False  # may take a moment longer than its health, after a start
    quick: bool = False  # cheap enough for an `up` that changed nothing
