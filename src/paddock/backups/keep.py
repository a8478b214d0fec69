"""Which backups to keep. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from paddock.backups.contract import UPGRADE, Backup
from paddock.file.models.backup import KeepSpec

Period = Callable[[datetime], tuple[int, ...]]


def kept(backups: Sequence[Backup], keep: KeepSpec) -> dict[str, list[str]]:
    """Return the names of the backups to keep, each with the reasons. Without any rule all are kept.

    For each rule of a period, the newest backup of each of the last periods that have one is kept, as restic does it.
    The newest backup that was made for an upgrade is kept too, for `paddock rollback`. So is the newest one of a state
    that was replaced. No rule counts these: they would push out backups that a restore would choose.
    """
    every = sorted(backups, key=lambda each: each.made, reverse=True)
    if keep.empty:
        return {each.name: ["no rule removes it"] for each in every}
    newest_first = [each for each in every if not each.replaced]
    reasons = {each.name: ["replaced"] for each in [one for one in every if one.replaced][:1]}
    for each in [one for one in newest_first if one.about.get("purpose") == UPGRADE][:1]:
        reasons.setdefault(each.name, []).append("upgrade")
    for each in newest_first[: keep.last]:
        reasons.setdefault(each.name, []).append("last")
    periods: Sequence[tuple[str, int, Period]] = (
        ("daily", keep.daily, lambda made: (made.year, made.month, made.day)),
        ("weekly", keep.weekly, lambda made: made.isocalendar()[:2]),
        ("monthly", keep.monthly, lambda made: (made.year, made.month)),
        ("yearly", keep.yearly, lambda made: (made.year,)),
    )
    for word, count, period in periods:
        seen: list[tuple[int, ...]] = []
        for each in newest_first:
            if len(seen) == count:
                break
            if period(each.made) not in seen:
                seen.append(period(each.made))
                reasons.setdefault(each.name, []).append(word)
    return reasons
