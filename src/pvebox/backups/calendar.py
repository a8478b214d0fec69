"""Calendar events of backup jobs: parse them, and find the next one.

The grammar is Proxmox's, a part of systemd's: `[WEEKDAYS] [[YEAR-]MONTH-DAY] [[HOUR:]MINUTE[:SECOND]]`, in which each
number can be a list, a range (`8..17`), a repetition (`0/15`) or `*`. A single number is a minute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pvebox.api.schema import FormatError

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
}
_ANY: Final = "*"
# A leap day on a certain weekday is at most 40 years away, for example around the year 2100.
_SEARCHED_DAYS: Final = 40 * 366

Numbers = frozenset[int]


@dataclass(frozen=True)
class CalendarEvent:
    """A parsed calendar event: the allowed numbers of each unit."""

    weekdays: Numbers
    years: Numbers
    months: Numbers
    days: Numbers
    hours: Numbers
    minutes: Numbers
    seconds: Numbers

    def next_after(self, epoch: float) -> int | None:
        """Return the Unix time of the first event after a time, in the local time zone, or None."""
        start = datetime.fromtimestamp(int(epoch)) + timedelta(seconds=1)
        for offset in range(_SEARCHED_DAYS):
            day = start.date() + timedelta(days=offset)
            if not (day.year in self.years and day.month in self.months and day.day in self.days):
                continue
            if day.weekday() not in self.weekdays:
                continue
            earliest = (start.hour, start.minute, start.second) if offset == 0 else (0, 0, 0)
            clock = self._time_of_day(earliest)
            if clock is not None:
                return int(datetime(day.year, day.month, day.day, *clock).timestamp())
        return None

    def _time_of_day(self, earliest: tuple[int, int, int]) -> tuple[int, int, int] | None:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                if (hour, minute) < earliest[:2]:
                    continue
                for second in sorted(self.seconds):
                    if (hour, minute, second) >= earliest:
                        return hour, minute, second
        return None


def parse(text: str) -> CalendarEvent:
    """Parse a calendar event, or raise Proxmox's error."""
    try:
        return _parse(_WORDS.get(text.strip().lower(), text))
    except ValueError as error:
        raise FormatError(f"invalid calendar event '{text}' - {error}\n") from None


def _parse(text: str) -> CalendarEvent:
    words = text.split()
    weekdays = frozenset(range(7))
    if words and re.match(r"[a-z]", words[0], re.IGNORECASE):
        weekdays = _weekdays(words.pop(0))
    year, month, day = _ANY, _ANY, _ANY
    if words and "-" in words[0]:
        *years, month, day = words.pop(0).split("-")
        if len(years) > 1:
            raise ValueError("unable to parse calendar event date")
        year = years[0] if years else _ANY
    clock = _clock(words.pop(0)) if words else ("0", "0", "0")
    if words or not text.strip():
        raise ValueError("unable to parse calendar event")
    hour, minute, second = clock
    return CalendarEvent(
        weekdays,
        _numbers(year, 1970, 2200),
        _numbers(month, 1, 12),
        _numbers(day, 1, 31),
        _numbers(hour, 0, 23),
        _numbers(minute, 0, 59),
        _numbers(second, 0, 59),
    )


def _clock(text: str) -> tuple[str, str, str]:
    match text.split(":"):
        case [minute]:
            return _ANY, minute, "0"
        case [hour, minute]:
            return hour, minute, "0"
        case [hour, minute, second]:
            return hour, minute, second
    raise ValueError("unable to parse calendar event time")


def _weekdays(text: str) -> Numbers:
    found: set[int] = set()
    for part in text.lower().split(","):
        first, dots, last = part.partition("..")
        ends = [_weekday(first), _weekday(last if dots else first)]
        if ends[0] > ends[1]:
            raise ValueError(f"wrong order in range '{part}'")
        found.update(range(ends[0], ends[1] + 1))
    return frozenset(found)


def _weekday(word: str) -> int:
    full = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
    if word in _WEEKDAYS or word in full:
        return _WEEKDAYS.index(word[:3])
    raise ValueError(f"unable to parse weekday '{word}'")


def _numbers(text: str, lowest: int, highest: int) -> Numbers:
    found: set[int] = set()
    for part in text.split(","):
        parsed = re.fullmatch(r"(\*|\d{1,4})(?:\.\.(\d{1,4}))?(?:/(\d{1,4}))?", part, re.ASCII)
        if not parsed or (parsed[1] == _ANY and parsed[2]):
            raise ValueError(f"unable to parse number '{part}'")
        first = lowest if parsed[1] == _ANY else int(parsed[1])
        repeats = parsed[1] == _ANY or parsed[3]
        last = int(parsed[2]) if parsed[2] else highest if repeats else first
        step = int(parsed[3] or 1)
        if not (lowest <= first <= last <= highest) or step == 0:
            raise ValueError(f"value out of range '{part}'")
        found.update(range(first, last + 1, step))
    return frozenset(found)
