"""Which backup may become the state of an agent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paddock.backups.contract import REPLACED, Backup
from paddock.base.errors import BadInput
from paddock.verbs import restore
from paddock.verbs.drill import Trial
from verbs.test_copies import agent


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, None),
        ({"version": "0.18.2"}, None),
        ({"version": None}, None),
        ({"version": "0.20.0"}, "is of version 0.20.0, and hermes has 0.19.0, which is older"),
        ({"agent": "home_other"}, "is of home_other"),
        ({"kind": "service"}, "(service), not of home_hermes"),
    ],
)
def test_a_backup_of_another_agent_or_a_newer_version_is_refused(
    about: dict[str, str | None], why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"agent": "home_hermes", "kind": "hermes", "version": "0.19.0", **about}
    backup = Backup("2026-11-16T12-00-00Z", datetime(2026, 11, 16, 12, tzinfo=UTC), 1, said)
    monkeypatch.setattr(restore, "all_backups", lambda _: [backup])
    asked = agent(backup={"to": "./backups"})
    if why is None:
        assert restore.choose(asked, None) is backup
    else:
        with pytest.raises(BadInput) as refused:
            restore.choose(asked, None)
        assert why in refused.value.message


def test_without_a_name_the_newest_backup_is_chosen_that_fits_and_was_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"agent": "home_hermes", "kind": "hermes"}
    more = [
        {"version": "0.18.2"},
        {"version": "0.19.0"},
        {"version": "0.20.0"},
        {"version": "0.19.0", "purpose": REPLACED},
    ]
    found = [
        Backup(f"2026-11-{day}T12-00-00Z", datetime(2026, 11, day, 12, tzinfo=UTC), 1, {**said, **about})
        for day, about in enumerate(more, 10)
    ]
    monkeypatch.setattr(restore, "all_backups", lambda _: found)
    asked = agent(backup={"to": "./backups"})
    assert restore.choose(asked, None) is found[1]
    assert restore.choose(asked, found[3].name) is found[3]


def test_after_a_rollback_drill_and_restore_choose_the_newest_backup_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nightly backup before the rollback is of the newer version, which the older code must not get."""
    said = {"agent": "home_hermes", "kind": "hermes"}
    versions = ["0.18.2", "0.19.0", "0.20.0", "0.20.0"]
    found = [
        Backup(f"2026-11-{day}T12-00-00Z", datetime(2026, 11, day, 12, tzinfo=UTC), 1, {**said, "version": version})
        for day, version in enumerate(versions, 10)
    ]
    monkeypatch.setattr(restore, "all_backups", lambda _: found)
    rolled_back = agent(backup={"to": "./backups"})
    trial = Trial.of(rolled_back, None, real_model=False)
    assert trial.backup is restore.choose(rolled_back, None) is found[1]
    assert not trial.asked_for
    with pytest.raises(BadInput, match=r"is of version 0\.20\.0, and hermes has 0\.19\.0, which is older"):
        Trial.of(rolled_back, found[3].name, real_model=False)
