"""An upgrade or a rollback can be killed at every program that it runs: the next run ends it, and nothing is lost."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.account_agent import BROKEN, NEW, OLD, SILENT, Account, Killed
from levels import by_level
from paddock.base.errors import PaddockError
from paddock.core import converge
from paddock.core import version as upgrading
from paddock.core.deployment import Deployment
from paddock.core.resolve import destination_of_states, locate
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.verbs import upgrade as rollback
from paddock.verbs.status import Status

TRIES = by_level(2, 1000)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    # The stand-in is started by the machine side, as systemd starts an agent.
    monkeypatch.setattr(ForegroundProcess, "foreground", False)
    made = Account(tmp_path)
    converge.up(made.agent(OLD))
    made.program.say("the fact")
    yield made
    made.program.stop()


def schema(version: str) -> int:
    return int(version.split(".")[1])


def expect_running(account: Account, version: str, *, knows: str = "the fact") -> None:
    found, texts = account.program.knows()
    assert account.program.running, "the agent does not run"
    assert (account.program.version, found) == (version, schema(version))
    assert knows in texts


def test_an_upgrade_saves_the_state_and_keeps_it(account: Account) -> None:
    planned = [step.id for step in converge.plan(account.agent(NEW)).steps]
    assert planned == ["code.install", "backup.reach", "agent.stop", "state.save", "agent.configure", "agent.answer"]
    converge.up(account.agent(NEW))
    expect_running(account, NEW)
    assert converge.plan(account.agent(NEW)).empty
    (backup,) = destination_of_states(account.agent(NEW)).backups()
    assert backup.about["version"] == OLD


def test_a_version_that_fails_goes_back_with_its_state(account: Account) -> None:
    with pytest.raises(upgrading.RolledBack, match="it does not answer"):
        converge.up(account.agent(BROKEN))
    expect_running(account, OLD)
    assert f"verified with {BROKEN}" not in account.program.knows()[1]
    assert converge.plan(account.agent(OLD)).empty
    versions = [each.about["version"] for each in destination_of_states(account.agent(OLD)).backups()]
    assert versions == [OLD, BROKEN], "what the broken version left is saved too"


def test_a_version_that_was_verified_does_not_go_back_by_itself(account: Account) -> None:
    converge.up(account.agent(NEW))
    account.program.say("news")
    account.program.version = BROKEN  # it stops to answer
    with pytest.raises(AssertionError, match="another version"):
        converge.up(account.agent(NEW))
    expect_kept(account, "news")


def expect_kept(account: Account, text: str) -> None:
    assert text in account.program.knows()[1]


def test_a_state_that_cannot_be_saved_leaves_the_old_version_running(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/backups")

    monkeypatch.setattr("paddock.backups.folder.seal", full)
    with pytest.raises(upgrading.RolledBack, match="there is no room for a backup"):
        converge.up(account.agent(NEW))
    expect_running(account, OLD)
    assert account.program.knows()[1] >= {"the fact"}


def test_a_backup_that_is_gone_stops_a_rollback_before_anything_changes(account: Account) -> None:
    converge.up(account.agent(NEW))
    destination = destination_of_states(account.agent(NEW))
    destination.remove(destination.backups())
    with pytest.raises(PaddockError, match="is not here"):
        rollback.planned(account.agent(NEW))
    expect_running(account, NEW)


def go_back(account: Account) -> str:
    found = rollback.planned(account.agent(NEW))
    return rollback.rollback(account.agent(NEW), found.last, lambda: lambda: None)


def test_a_rollback_tells_what_is_lost_and_saves_it(account: Account) -> None:
    time.sleep(1)  # the record of an upgrade has whole seconds
    converge.up(account.agent(NEW))
    account.program.say("news")
    found = rollback.planned(account.agent(NEW))
    assert ": 2 messages" in found.lost  # the other one is of the verification
    assert [step.id for step in found.plan.steps][:5] == [
        *("backup.reach", "state.receive", "agent.stop", "state.save", "state.swap")
    ]
    go_back(account)
    expect_running(account, OLD)
    assert "news" not in account.program.knows()[1]
    assert converge.plan(account.agent(OLD)).empty
    assert [each.about["version"] for each in destination_of_states(account.agent(OLD)).backups()] == [OLD, NEW]


def coloured(account: Account, colour: str, version: str = OLD) -> Deployment:
    return account.agent(version, environment=f"{{COLOUR: {colour}}}", secrets=f"{{KEY: {{env: OF_{colour.upper()}}}}}")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for colour in ("RED", "BLUE", "SILENT"):
        monkeypatch.setenv(f"OF_{colour}", f"secret of {colour}")


@pytest.mark.usefixtures("secrets")
def test_a_change_that_fails_goes_back_with_its_secrets(account: Account) -> None:
    converge.up(coloured(account, "red"))
    before = facts(account)
    for _ in range(2):
        with pytest.raises(upgrading.WentBack, match="runs with its configuration from before again"):
            converge.up(coloured(account, SILENT))
        assert facts(account) == before
        assert converge.plan(coloured(account, "red")).empty
        expect_running(account, OLD)
    converge.up(coloured(account, "blue"))
    assert converge.plan(coloured(account, "blue")).empty


@pytest.mark.usefixtures("secrets")
def test_a_killed_change_goes_back_to_what_was_verified_last(account: Account) -> None:
    converge.up(coloured(account, "red"))
    before = facts(account)
    whole = counted(account, lambda account: fails(account, SILENT))
    for at in random.sample(range(whole), min(TRIES, whole)):
        killed_at(account, at, lambda account: converge.up(coloured(account, SILENT)))
        fails(account, "silent")
        assert facts(account) == before, f"killed at {at}"


def fails(account: Account, colour: str) -> None:
    with pytest.raises(upgrading.WentBack):
        converge.up(coloured(account, colour))


def test_a_first_configuration_that_fails_stays(account: Account) -> None:
    root = Path(locate(account.agent(OLD)).paths.etc).parent
    (root / "answered").unlink()
    with pytest.raises(PaddockError, match="it does not answer") as failed:
        converge.up(account.agent(OLD, environment="{COLOUR: silent}"))
    assert not isinstance(failed.value, upgrading.WentBack)
    assert converge.plan(account.agent(OLD, environment="{COLOUR: silent}")).steps


@pytest.mark.usefixtures("secrets")
def test_a_version_and_settings_that_fail_go_back_both(account: Account) -> None:
    converge.up(coloured(account, "red"))
    with pytest.raises(PaddockError, match="it does not answer"):
        converge.up(coloured(account, SILENT, NEW))
    expect_running(account, OLD)
    converge.up(coloured(account, "red"))
    expect_running(account, OLD)
    assert converge.plan(coloured(account, "red")).empty


def facts(account: Account) -> dict[str, str]:
    """Return the configuration and the secrets of the agent, and what it was verified with."""
    root = Path(locate(account.agent(OLD)).paths.etc).parent
    found = {name: (root / name).read_text() for name in ("secrets.env", "answered", "current/environment")}
    return {**found, "current": str((root / "current").readlink()), "before": str((root / "before").exists())}


def test_status_and_plan_say_where_an_agent_goes_back_to(account: Account) -> None:
    converge.up(account.agent(NEW))
    upgrading.begin_rollback(account.agent(NEW))
    way = f"bee is on its way back from {NEW} to {OLD}"
    assert Status.of(account.agent(NEW)).drift == way
    assert "state.swap" in [step.id for step in converge.plan(account.agent(NEW)).steps]
    destination = destination_of_states(account.agent(NEW))
    destination.remove(destination.backups())
    assert Status.of(account.agent(NEW)).drift == way
    with pytest.raises(PaddockError, match="is not here"):
        converge.plan(account.agent(NEW))


Verb = Callable[[Account], object]


def upgrade(account: Account) -> None:
    converge.up(account.agent(NEW))


def upgrade_to_broken(account: Account) -> None:
    with pytest.raises(upgrading.RolledBack):
        converge.up(account.agent(BROKEN))


def up_and_go_back(account: Account) -> None:
    """Run `up` with the file as it was, which ends a rollback that has begun. Otherwise begin it again."""
    with suppress(upgrading.RolledBack):
        converge.up(account.agent(NEW))
    if account.program.version == NEW:
        go_back(account)


def counted(account: Account, verb: Verb) -> int:
    """Carry a verb out, and return how often it can be killed."""
    count = itertools.count()
    account.place.cut = lambda: void(next(count))
    verb(account)
    account.place.cut = lambda: None
    return next(count)


def void(_: object) -> None: ...


def killed_at(account: Account, at: int, verb: Verb) -> None:
    """Carry a verb out, and kill it before or after a program that it runs."""
    left = itertools.count(at, -1)

    def cut() -> None:
        if next(left) == 0:
            raise Killed

    account.place.cut = cut
    with pytest.raises(Killed):
        verb(account)
    account.place.cut = lambda: None


@pytest.mark.parametrize(
    ("begins", "verb", "again", "ends"),
    [
        (OLD, upgrade, upgrade, NEW),
        (OLD, upgrade_to_broken, upgrade_to_broken, OLD),
        (NEW, go_back, up_and_go_back, OLD),
    ],
    ids=["upgrade", "broken-upgrade", "rollback"],
)
def test_a_run_that_is_killed_at_any_program_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str, verb: Verb, again: Verb, ends: str
) -> None:
    monkeypatch.setattr(ForegroundProcess, "foreground", False)

    def fresh(name: str) -> Account:
        for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / name / variable.lower()))
        account = Account(tmp_path / name)
        converge.up(account.agent(OLD))
        account.program.say("the fact")
        if begins == NEW:
            converge.up(account.agent(NEW))
        return account

    first = fresh("whole")
    points = range(counted(first, verb))
    expect_running(first, ends)
    first.program.stop()
    assert len(points) > 10
    for at in random.sample(points, min(TRIES, len(points))):
        account = fresh(str(at))
        killed_at(account, at, verb)
        assert "the fact" in account.program.knows()[1], f"killed at {at}: the state was lost"
        again(account)
        expect_running(account, ends)
        assert converge.plan(account.agent(ends)).empty, f"killed at {at}"
        account.program.stop()
