"""How much of a stream has passed, and how long the rest will take, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from paddock import clock

_SOON: Final = 2.0  # seconds before which the speed is not known
_RECENT: Final = 50  # how many times of showing it the speed is measured over


class Progress:
    """Counts bytes and shows them now and then."""

    def __init__(self, show: Callable[[str], object], every: float, total: Callable[[], int | None]) -> None:
        self._show = show
        self._every = every  # seconds
        self._total = total  # of the bytes; a machine may have named it, so it may be wrong
        self._done = 0
        self._recent = deque([(clock.monotonic(), 0)], maxlen=_RECENT)  # when so many bytes had passed

    def __call__(self, count: int) -> None:
        """Note that so many more bytes have passed."""
        self._done += count
        now = clock.monotonic()
        if now - self._recent[-1][0] >= self._every:
            self._recent.append((now, self._done))
            before, done = self._recent[0]
            self._show(in_words(self._done, self._total(), self._done - done, now - before))


def in_words(done: int, total: int | None, recently: int, seconds: float) -> str:
    """Return how many bytes have passed, and how long the rest takes at the speed of the last seconds."""
    if not total or total < done:
        return in_units(done)
    known = f"{in_units(done)} of {in_units(total)}"
    if seconds < _SOON or not recently:
        return known
    left = int((total - done) * seconds / recently)
    hours, minutes = divmod(left // 60, 60)
    shown = f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"
    return f"{known}, {shown} left"


def in_units(count: float) -> str:
    """Return a number of bytes in words, such as `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
