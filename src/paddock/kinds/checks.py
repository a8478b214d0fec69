"""Questions for `verify`, asked on the agent's machine as the agent's user, and how the recipe judges the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paddock.base.frozen import frozen
from paddock.kinds.workload import OpenPort, Request, Verdict


@frozen
class ReadFile:
    """Read a file of the agent. The answer is its JSON, otherwise its text, or None if there is no file."""

    path: str


@frozen
class Databases:
    """Check SQLite databases while the agent may write to them. The answer is ``{path: SQLite's result}``."""

    below: str
    patterns: Sequence[str]


@frozen
class Attempt:
    """Run a program as the agent's user. The answer has its exit code and output: ``code``, ``out`` and ``err``."""

    argv: Sequence[str]
    seconds: float = 30.0


@frozen
class WriteInto:
    """Check that the agent can write to a folder."""

    folder: str
    or_file: bool = False  # whether something else than a folder may be there, which is not written to


@frozen
class Connect:
    """Try to send a datagram and to connect, to each host and port; without any, to the first name server.

    The answer is a list of ``host``, ``port``, ``sent`` and ``connected``: an error number each, or None for success.
    With ``kernel``, connections are tried that the kernel opens for the agent, below sockets of SMC. The
    answer then has ``protocol 256`` and ``family 43``.
    """

    endpoints: Sequence[tuple[str, int]]
    kernel: bool = False


@frozen
class LogLines:
    """Read the lines of a log that contain one of these words, since the agent's first process was started.

    The lines begin with a local time, like ``2026-01-01 10:00:00``. Files ``PATH.1`` and so on are older parts. The
    answer has the ``lines``, the newest last, and whether the log is ``whole``: no line since then can be missing.
    """

    path: str
    words: Sequence[str]


Question = LogLines | Request | ReadFile | Databases | Attempt | OpenPort | WriteInto | Connect


@frozen
class Check:
    """A question and its judge; the answer to a ``Request`` is an ``Answer``. A check without an answer fails."""

    name: str
    question: Question
    judge: Callable[[Any], Verdict]
    hint: str  # what to do if the check fails
    needs: str | None = None  # the name of a check that must succeed before this one is judged
    settles: bool = False  # may fail for a moment after a start, and is repeated then
    quick: bool = False  # cheap enough to run in an `up` that changed nothing
