"""A terminal: a program on a pseudo-terminal, and what a person sees of it, with the lines that scrolled away."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import paddock

_TOKEN = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


Cell = tuple[str, str]  # a letter, and the numbers of its style; the second column of a wide letter is empty


class Display:
    """The rows of a terminal. It knows the sequences that Paddock uses, and fails at others.

    Like tmux, it wraps lines again when it becomes narrower.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows: list[list[Cell]] = [[]]  # all of them; the last ones are on the screen
        self.row = self.column = 0
        self.wraps = True
        self._style = ""
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Everything from the first line on, as text, without empty lines at the end."""
        texts = ["".join(letter for letter, _ in row).rstrip() for row in self.rows]
        while texts and not texts[-1]:
            texts.pop()
        return texts

    @property
    def top(self) -> int:
        """The first row on the screen."""
        return max(len(self.rows) - self.height, 0)

    def feed(self, text: str) -> None:
        text = self._rest + text
        begun = re.search(r"\x1b(\[[?0-9;]*)?$", text)  # the rest of the sequence has not arrived
        self._rest = begun[0] if begun else ""
        for private, numbers, letter, plain in _TOKEN.findall(text.removesuffix(self._rest)):
            if plain:
                self._put(plain)
            else:
                self._obey(letter, numbers, private=bool(private))

    def _obey(self, letter: str, numbers: str, *, private: bool) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        if private:
            assert numbers == "7", f"unexpected mode {numbers}"
            self.wraps = letter == "h"
        elif letter == "A":
            self.row = max(self.row - count, self.top)
        elif letter == "G":
            self.column = count - 1
        elif letter == "K":
            del self.rows[self.row][self.column :]
        else:
            assert letter == "m", f"unexpected sequence {letter}"
            self._style = "" if numbers in ("", "0") else numbers

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self._next_row()
        elif unicodedata.combining(letter):
            base, style = self.rows[self.row][self.column - 1]
            self.rows[self.row][self.column - 1] = base + letter, style
        else:
            wide = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
            if self.column + wide > self.width:
                if self.wraps:
                    self._next_row()
                    self.column = 0
                else:
                    self.column = self.width - wide
            cells = self.rows[self.row]
            cells += [(" ", "")] * (self.column + wide - len(cells))
            cells[self.column : self.column + wide] = [(letter, self._style), *[("", self._style)] * (wide - 1)]
            self.column += wide

    def _next_row(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def resize(self, width: int, height: int) -> None:
        rows: list[list[Cell]] = []
        for at, row in enumerate(self.rows):
            if at == self.row:
                self.row = len(rows)
            rows += [row[start : start + width] for start in range(0, max(len(row), 1), width)]
        self.rows, self.width, self.height = rows, width, height


class Terminal:
    """A program on a terminal."""

    def __init__(self, master: int, program: subprocess.Popen[bytes], width: int, height: int) -> None:
        self._master = master
        self.program = program
        self.display = Display(width, height)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def expect(self, text: str, times: int = 1) -> None:
        """Wait until a text is on the display, so many times."""
        end = time.monotonic() + 30
        while "\n".join(self.display.lines).count(text) < times:
            assert time.monotonic() < end, "\n".join(self.display.lines)
            assert self._read(0.1), "\n".join(self.display.lines)

    def end(self, seconds: float = 60) -> int:
        """Wait until the program has ended, and return its exit code."""
        end = time.monotonic() + seconds
        while self._read(0.1):
            assert time.monotonic() < end, "\n".join(self.display.lines)
        return self.program.wait(10)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def echoes(self) -> bool:
        """Whether the terminal shows the keys that are typed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def settle(self) -> None:
        """Read until nothing more arrives."""
        while select.select([self._master], [], [], 0.03)[0] and self._read(0):  # a frame is drawn every 0.1 s
            pass

    def resize(self, width: int, height: int) -> None:
        self.settle()  # what was printed for the old size
        self.display.resize(width, height)
        _set_size(self._master, width, height)

    def _read(self, seconds: float) -> bool:
        """Read what arrives within a time. Return False at the end of the program."""
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            text = self._decoder.decode(os.read(self._master, 65536))
        except OSError:
            return False
        self.raw += text
        self.display.feed(text)
        return True


@contextmanager
def terminal(
    *words: str | Path,
    width: int = 80,
    height: int = 24,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[Terminal]:
    """Run a Python program with arguments on a new terminal. It is killed at the end."""
    master, slave = pty.openpty()
    _set_size(master, width, height)
    given = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(paddock.__file__).parent.parent)}
    given.pop("NO_COLOR", None)

    def become_leader() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    running = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**given, **(environment or {})},
        preexec_fn=become_leader,
    )
    os.close(slave)
    try:
        yield Terminal(master, running, width, height)
    finally:
        running.kill()
        running.wait()
        os.close(master)


def _set_size(terminal: int, width: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
