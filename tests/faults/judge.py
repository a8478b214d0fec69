"""Judge the series of a long run: cycles that become slower, memory and file handles that grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Self

TEN: Final = 10
SLOWEST: Final = 1.2  # the last ten cycles, in medians of the first ten
_MIB: Final = 1024
LARGEST_GROWTH: Final = 2 * _MIB  # KiB; less than the noise of Python's allocator would be found by chance


@dataclass(frozen=True)
class Sample:
    """The memory and the file handles of a process at one moment."""

    rss: int  # KiB
    peak: int  # KiB
    handles: int
    threads: int

    @classmethod
    def of(cls, pid: int | str) -> Self:
        """Return what a process uses now."""
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        rss, peak, threads = (int(status[name].split()[0]) for name in ("VmRSS", "VmHWM", "Threads"))
        return cls(rss, peak, len([*Path(f"/proc/{pid}/fd").iterdir()]), threads)


def pace(series: Sequence[float]) -> float:
    """Return the median of the last ten, in medians of the first ten."""
    return median(series[-TEN:]) / median(series[:TEN])


def slowdown(seconds: Sequence[float], yardsticks: Sequence[float]) -> list[str]:
    """Return a line if the last ten cycles were slower than the first ten.

    A yardstick is a fixed piece of work, measured beside each cycle. When other programs load the machine, it takes
    longer too, and the cycle is compared with it.
    """
    if len(seconds) < 2 * TEN:
        return []
    beside = [cycle / work for cycle, work in zip(seconds, yardsticks, strict=True)]
    if min(pace(seconds), pace(beside)) <= SLOWEST:
        return []
    first, last = median(seconds[:TEN]), median(seconds[-TEN:])
    return [f"the last ten cycles took {last:.2f} s each, the first ten {first:.2f} s"]


def growth(what: str, samples: Sequence[Sample]) -> list[str]:
    """Return a line for memory, handles and threads that grow. The first quarter is left out: caches fill up."""
    warm = samples[len(samples) // 4 :]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    found = []
    grown = median(each.rss for each in last) - median(each.rss for each in first)
    if grown > LARGEST_GROWTH:
        found.append(f"{what}: its memory grew by {grown / _MIB:.1f} MiB")
    for name in ("handles", "threads"):
        before, after = (max(getattr(each, name) for each in part) for part in (first, last))
        if after > before:
            found.append(f"{what}: it had {before} {name}, and {after} at the end")
    return found


def shown(samples: Sequence[Sample]) -> str:
    """Return the first and the last sample as one line, without the first quarter."""
    first, last = samples[len(samples) // 4], samples[-1]
    return (
        f"{first.rss / _MIB:.1f} → {last.rss / _MIB:.1f} MiB (peak {last.peak / _MIB:.1f}), "
        f"{first.handles} → {last.handles} handles, {first.threads} → {last.threads} threads"
    )
