"""The shell of the node's console: lists of commands, their options and their results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pvebox.api.errors import SandboxError

_JOINS: Final = ("&&", "||")
_KNOWN: Final = (*_JOINS, ";", "{", "}")

RunCommand = Callable[[list[str]], int]


@dataclass(frozen=True)
class CommandResult:
    """The result of a console command: exit code and output."""

    code: int = 0
    out: str = ""
    err: str = ""


class UsageError(Exception):
    """A console command has invalid arguments."""


def parse_options(rest: list[str]) -> dict[str, str]:
    """Parse options as Proxmox's tools do: one or two dashes, and a value or none for a flag."""
    options: dict[str, str] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument '{word}'")
        key, separator, value = word.lstrip("-").partition("=")
        if not separator:
            value = words.pop(0) if words and not words[0].startswith("-") else "1"
        options[key] = value
    return options


def run_lines(lines: Iterable[str], run: RunCommand) -> int:
    """Run lines as a shell runs pasted ones, joined by ``&&`` and ``||``, in groups of ``{ …; }``.

    A list that fails does not stop the next one. Return the exit code of the last list that failed. A shell would
    return the exit code of the last list and hide an earlier failure.
    """
    failed = 0
    for words in _lists(lines):
        reader = _Reader(words, run)
        code = reader.sequence(active=True)
        if reader.left:
            raise SandboxError(f"A line cannot be read: unexpected {reader.left[0]}.")
        failed = code or failed
    return failed


def _lists(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each list: a line, with the next ones as long as it ends with a join or inside a group."""
    words: list[str] = []
    for line in lines:
        words += _words(line)
        open_group = words.count("{") > words.count("}")
        if words and words[-1] not in _JOINS and not open_group:
            yield words
            words = []
        elif words and open_group and words[-1] not in (*_JOINS, ";", "{"):
            words.append(";")
    if words:
        raise SandboxError(f"A line cannot be read: nothing follows {words[-1]}.")


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError as error:
        raise SandboxError(f"A line cannot be read: {error}.") from None
    for word in words:
        if word not in _KNOWN and word and set(word) <= set(";|&<>()"):
            raise SandboxError(f"The sandbox's shell does not have {word}.", hint="It has && and ||, ; and { …; }.")
    return words


class _Reader:
    """Reads a list and runs it. Commands that a join skips are read and not run."""

    def __init__(self, words: Sequence[str], run: RunCommand) -> None:
        self.left = list(words)
        self._run = run

    def sequence(self, *, active: bool) -> int:
        code = 0
        while self.left and self.left[0] != "}":
            code = self._joined(active=active)
            if not self.left or self.left[0] != ";":
                break
            self.left.pop(0)
        return code

    def _joined(self, *, active: bool) -> int:
        code = self._command(active=active)
        while self.left and self.left[0] in _JOINS:
            runs = (code == 0) == (self.left.pop(0) == "&&")
            again = self._command(active=active and runs)
            code = again if runs else code
        return code

    def _command(self, *, active: bool) -> int:
        if self.left[:1] == ["{"]:
            self.left.pop(0)
            code = self.sequence(active=active)
            if self.left[:1] != ["}"]:
                raise SandboxError("A line cannot be read: a group has no end.")
            self.left.pop(0)
            return code
        argv: list[str] = []
        while self.left and self.left[0] not in _KNOWN:
            argv.append(self.left.pop(0))
        if not argv:
            raise SandboxError(f"A line cannot be read: a command is missing before {[*self.left, 'its end'][0]}.")
        return self._run(argv) if active else 0
