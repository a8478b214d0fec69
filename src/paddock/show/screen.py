"""Draw the steps of a run at the bottom of a terminal, below the lines that are printed."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from types import FrameType
from typing import Any, Final, TextIO

from paddock.base.secret import mask, unmasked
from paddock.base.text import one_line, visible
from paddock.show.frame import Board, Line, Size, frame, text_columns
from paddock.show.table import cells

_PAUSE: Final = 0.1  # seconds between two drawings
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "bold yellow": "1;33"}
_ERASE: Final = "\x1b[K"  # the rest of a row. Erasing the screen would put the frame into the history of some terminals
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_LOCAL_MODES: Final = 3  # where tcgetattr has them
_USUAL_SIZE: Final = Size(80, 24)


def draws(stream: TextIO) -> bool:
    """Whether the stream is a terminal on which lines can be drawn again."""
    with suppress(ValueError):  # it is closed
        utf8 = (getattr(stream, "encoding", "") or "").lower().replace("-", "") == "utf8"
        return stream.isatty() and utf8 and os.environ.get("TERM", "dumb") not in ("", "dumb")
    return False


def coloured(text: str, style: str) -> str:
    """Return a text in a colour, unless the user wants none."""
    if not style or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    # A line that is scrolled away and printed again keeps its colour only if the colour is set in that line.
    return "\n".join(f"\x1b[{_STYLES[style]}m{line}\x1b[0m" for line in text.split("\n"))


class Screen:
    """A terminal with a frame at its bottom. All methods may be called from several threads."""

    def __init__(self, stream: TextIO, board: Board, *, named: bool) -> None:
        self._stream = unmasked(stream)  # for Paddock's own colours: all text is masked here first
        self._board = board
        self._named = named
        self._lock = threading.RLock()
        self._drawn: tuple[Size, list[Line], list[str]] | None = None  # the frame on the terminal
        self._middle = False  # a line was begun and not ended; the frame stays away
        self._drawing: threading.Thread | None = None
        self._closed = False
        self._beside: list[_Beside] = []
        self._settings: list[Any] | None = None  # of the terminal before the frame
        self._quiet = False  # the terminal shows no keys
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._stop_and_continue)

    @contextmanager
    def changing(self) -> Iterator[Board]:
        """Change what the frame shows."""
        with _uninterrupted(), self._lock:
            yield self._board
            self._update()

    def print(self, text: str, style: str = "") -> None:
        """Print a text above the frame."""
        with _uninterrupted(), self._lock:
            self._middle = False
            self._put(self._erased() + coloured(visible(mask(text)), style) + "\n")
            self._update()

    def print_beside(self, stream: TextIO, text: str) -> None:
        """Print what someone else prints, above the frame."""
        with _uninterrupted(), self._lock:
            self._put(self._erased())
            self._echo()
            stream.write(text)
            stream.flush()
            self._middle = not text.endswith("\n") if text else self._middle
            if not self._middle:
                self._update()

    def close(self) -> None:
        """Remove the frame for good."""
        with _uninterrupted(), self._lock:
            self._closed = True
            self._update()

    @property
    def width(self) -> int:
        return self._size().width

    def _update(self) -> None:
        """Draw the frame, or remove it if there is nothing to show. Call it with the lock."""
        if self._closed or not self._board.sections:
            self._put(self._erased())
            self._restore_streams()
            self._echo()
            return
        self._replace_streams()
        if not self._middle:
            self._draw()
        if self._drawing is None:
            self._drawing = threading.Thread(target=self._draw_often, name="progress", daemon=True)
            self._drawing.start()

    def _draw_often(self) -> None:
        while True:
            time.sleep(_PAUSE)
            with self._lock:
                if self._closed or not self._board.sections:
                    self._drawing = None
                    return
                if not self._middle:
                    self._draw()

    def _draw(self) -> None:
        size = self._size()
        lines = frame(self._board.sections, size, time.monotonic(), named=self._named)
        if self._drawn and self._drawn[:2] == (size, lines):
            return
        self._echo_nothing()
        before = self._rows_drawn(size)
        shown = [_shown(line, size.width) for line in lines]
        surplus = max(before - len(lines), 0)
        self._put(
            f"{_up(before)}{_NO_WRAP}"
            + "".join(f"{text}{_ERASE}\n" for text in shown)
            + f"{_ERASE}\n" * surplus
            + f"{_ERASE}{_WRAP}{_up(surplus)}"
        )
        self._drawn = size, lines, [line.plain(size.width) for line in lines]

    def _erased(self) -> str:
        """Return what erases the frame and leaves the cursor at its first row."""
        rows = self._rows_drawn(self._size())
        self._drawn = None
        return f"{_up(rows)}" + f"{_ERASE}\n" * rows + f"{_ERASE}{_up(rows)}" if rows else ""

    def _rows_drawn(self, size: Size) -> int:
        """Return how many rows the frame takes. A terminal that was made narrower has wrapped its lines."""
        if self._drawn is None:
            return 0
        rows = sum(max(-(-cells(text) // size.width), 1) for text in self._drawn[2])
        return min(rows, size.height - 1)

    def _size(self) -> Size:
        with suppress(OSError, ValueError):
            found = os.get_terminal_size(self._stream.fileno())
            if found.columns and found.lines:
                return Size(found.columns, found.lines)
        return _USUAL_SIZE

    def _put(self, text: str) -> None:
        if text:
            with suppress(OSError, ValueError):  # the terminal is gone; the run does not depend on it
                self._stream.write(text)
                self._stream.flush()

    def _replace_streams(self) -> None:
        """Let everything that is printed appear above the frame. The streams keep their mask."""
        if self._beside:
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            with suppress(ValueError, OSError):
                if stream.isatty():
                    self._beside.append(_Beside(self, name, stream))
                    setattr(sys, name, self._beside[-1])

    def _restore_streams(self) -> None:
        for each in self._beside:
            if getattr(sys, each.name) is each:
                setattr(sys, each.name, each.bare)
        self._beside.clear()

    def _stop_and_continue(self, number: int, _: object) -> None:
        """Handle Ctrl-Z: leave the terminal to the shell, stop, and draw the frame again after `fg`."""
        with self._lock:  # nothing is drawn meanwhile
            self._put(self._erased())
            self._echo()
            handler = signal.signal(number, signal.SIG_DFL)
            signal.pthread_kill(threading.get_ident(), number)
            signal.signal(number, handler)
            self._update()

    def _echo_nothing(self) -> None:
        """Show no keys while there is a frame: Enter would move the cursor away from it."""
        with suppress(OSError, ValueError, termios.error):
            terminal = self._stream.fileno()
            # A process in the background would be stopped.
            if not self._quiet and os.tcgetpgrp(terminal) == os.getpgrp():
                self._settings = self._settings or termios.tcgetattr(terminal)
                settings = list(self._settings)
                settings[_LOCAL_MODES] &= ~termios.ECHO
                settings[_LOCAL_MODES] |= termios.NOFLSH  # or Ctrl-C drops unprinted output
                termios.tcsetattr(terminal, termios.TCSANOW, settings)
                self._quiet = True

    def _echo(self) -> None:
        """Show keys again, as before the frame."""
        before, self._settings, self._quiet = self._settings, None, False
        with suppress(OSError, ValueError, termios.error):
            terminal = self._stream.fileno()
            if before is not None and os.tcgetpgrp(terminal) == os.getpgrp():
                termios.tcsetattr(terminal, termios.TCSANOW, before)


class _Beside:
    """A stream whose text appears above the frame."""

    def __init__(self, screen: Screen, name: str, bare: TextIO) -> None:
        self._screen = screen
        self.name = name
        self.bare = bare

    def write(self, text: str) -> int:
        self._screen.print_beside(self.bare, text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def fileno(self) -> int:
        """Fail, so that Python's `input` writes its question here and not to the terminal itself."""
        raise UnsupportedOperation("fileno")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Handle signals after the context. An exception in the middle of a drawing would leave parts of it behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
    found = {number: signal.getsignal(number) for number in numbers}
    handlers = {int(number): handler for number, handler in found.items() if callable(handler)}
    for each in handlers:
        signal.signal(each, lambda number, at: came.append((number, at)))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number, at in came:
            handlers[number](number, at)


def _up(rows: int) -> str:
    """Move the cursor to the beginning of a row above."""
    return f"\r\x1b[{rows}A" if rows else "\r"


def _shown(line: Line, width: int) -> str:
    """Return a line with its colour. Its times are put at their column, whatever width the terminal gives its text."""
    text, times = line.parts(width)
    behind = f"{_ERASE}\x1b[{text_columns(width) + 1}G{times}" if times else ""
    return coloured(one_line(mask(text)) + behind, line.style)
