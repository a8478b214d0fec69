"""Work in threads, for the programs on the machine.

The library's pool of threads takes longer to load than the quick checks take.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def in_thread(work: Callable[..., Any], *given: Any) -> Callable[..., Any]:
    """Start the work in a thread of its own. Return a function that waits for its result, or some seconds for it."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work(*given)), daemon=True)
    thread.start()

    def ended(seconds: float | None = None) -> Any:
        thread.join(seconds)
        if seconds is not None and not found:
            return None
        return found[0]  # fails if the thread did, which has printed why

    return ended


def together(work: Callable[[Any], Any], given: Iterable[Any]) -> list[Any]:
    """Return the result for each of the given, in order. All are worked on at the same time."""
    return [ended() for ended in [in_thread(work, each) for each in given]]
