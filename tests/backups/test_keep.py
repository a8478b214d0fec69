"""Which backups are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from paddock.backups.contract import REPLACED, UPGRADE, Backup
from paddock.backups.keep import kept
from paddock.file.models.backup import KeepSpec

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def backups(*ages: timedelta) -> list[Backup]:
    return [Backup(f"b{number}", NOON - age, 1, {}) for number, age in enumerate(ages)]


def test_a_replaced_state_is_kept_beside_what_the_rules_keep() -> None:
    newest, older, good, old = backups(*(timedelta(days=days) for days in range(4)))
    replaced = [replace(each, about={"purpose": REPLACED}) for each in (newest, older)]
    assert kept([*replaced, good, old], KeepSpec(last=1)) == {newest.name: ["replaced"], good.name: ["last"]}


def test_without_a_rule_all_are_kept() -> None:
    assert set(kept(backups(timedelta(0), timedelta(999)), KeepSpec())) == {"b0", "b1"}


def test_the_newest_of_each_day_is_kept() -> None:
    found = kept(backups(*(timedelta(hours=hours) for hours in (0, 6, 24, 30, 48))), KeepSpec(daily=2))
    assert found == {"b0": ["daily"], "b2": ["daily"]}


def test_each_rule_counts_for_itself() -> None:
    found = kept(backups(*(timedelta(days=7 * number) for number in range(6))), KeepSpec(last=1, weekly=2, monthly=2))
    assert found == {"b0": ["last", "weekly", "monthly"], "b1": ["weekly"], "b3": ["monthly"]}


def test_the_newest_backup_made_for_an_upgrade_is_kept() -> None:
    made = [replace(each, about={"purpose": UPGRADE}) for each in backups(timedelta(days=1), timedelta(days=2))]
    newest = Backup("newest", NOON, 1, {})
    assert kept([newest, *made], KeepSpec(last=1)) == {"newest": ["last"], "b0": ["upgrade"]}


@given(
    st.lists(st.integers(0, 4 * 365 * 24), max_size=60),
    st.builds(KeepSpec, **{name: st.integers(0, 9) for name in ("last", "daily", "weekly", "monthly", "yearly")}),
)
def test_the_newest_is_always_kept_and_no_rule_keeps_more_than_its_number(hours: list[int], keep: KeepSpec) -> None:
    found = kept(backups(*(timedelta(hours=each) for each in hours)), keep)
    if hours:
        assert f"b{hours.index(min(hours))}" in found
    if not keep.empty:
        for word in ("last", "daily", "weekly", "monthly", "yearly"):
            assert sum(word in reasons for reasons in found.values()) <= getattr(keep, word)
