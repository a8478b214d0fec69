"""Scenarios of an agent in this account: its scripts, streams and backups are real."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from core.account_agent import BROKEN, SILENT
from faults.account_world import NEW, OLD, POISON, AccountWorld
from faults.killing import run_apart
from faults.matrix import Scenario
from paddock.base.errors import PaddockError
from paddock.core import version as upgrading
from paddock.core.converge import down, forget, plan, plan_down, plan_forget, up
from paddock.core.deployment import Deployment
from paddock.core.files import RootDisk
from paddock.core.observe import observe
from paddock.core.resolve import locate
from paddock.plan.step import AdoptTarget
from paddock.verbs import adopt as adopting
from paddock.verbs import backup, importing, restore, upgrade
from paddock.verbs.importing import Folder

BACKUP = "{to: ./backups}"
FACT = "what nobody else knows"


def agent(world: AccountWorld, version: str = OLD) -> Deployment:
    return world.agent(version, backup=BACKUP)


def with_agent(world: AccountWorld) -> None:
    """Begin with an agent that is up and has learned something."""
    up(agent(world))
    world.program.say(FACT)


def backed_up(world: AccountWorld) -> None:
    """Begin with an agent that has a backup, and has learned something since."""
    with_agent(world)
    backup.make(agent(world))
    world.program.say("news")


def upgraded(world: AccountWorld) -> None:
    with_agent(world)
    up(agent(world, NEW))


def taken_down(world: AccountWorld) -> None:
    with_agent(world)
    down(agent(world))


def is_up(version: str = OLD) -> Callable[[AccountWorld], bool]:
    return lambda world: plan(agent(world, version)).empty


def is_down(world: AccountWorld) -> bool:
    located = locate(agent(world))
    return plan_down(located, observe(located), RootDisk(looked=True)).empty


def forgotten(world: AccountWorld) -> None:
    seen, agreed = plan_forget(agent(world))
    forget(agent(world), agreed, seen)


def knows(*texts: str) -> Callable[[AccountWorld], set[str]]:
    """Return which of these texts the agent knows."""
    return lambda world: world.knows() & set(texts)


def restored(world: AccountWorld) -> None:
    found = agent(world)
    restore.restore(found, restore.choose(found, None))


def half_restored(world: AccountWorld) -> None:
    """Begin with a restore that was killed when it had unpacked the backup, before it noted that."""
    backed_up(world)
    end = run_apart(world, lambda: restored(world), lambda _, point: str(point) == "state.swap before")
    assert end.killed, end.error
    # The note has the inode of a folder, and a copy of this world has other inodes.
    (world.state / ".paddock/incoming.json").unlink()


def restored_at_last(world: AccountWorld) -> None:
    """Run `up`, which ends an interrupted restore, and restore again unless that had put the state in place."""
    up(agent(world))
    restored(world)


def restored_in_vain(world: AccountWorld) -> None:
    """Restore a backup with which the agent does not work."""
    with suppress(PaddockError):
        restored(world)


def up_with_what_works(world: AccountWorld) -> None:
    """After a kill, a plain `up` never puts the old state back: a person does."""
    with suppress(PaddockError):
        up(agent(world))
    if POISON in world.knows():
        restore.undo(agent(world))
    up(agent(world))


def poisoned(world: AccountWorld) -> None:
    """Begin with a backup with which the agent does not answer."""
    with_agent(world)
    world.program.say(POISON)
    backup.make(agent(world))
    world.program.forget(POISON)


def go_back(world: AccountWorld) -> None:
    found = upgrade.planned(agent(world, NEW))
    upgrade.rollback(agent(world, NEW), found.last, lambda: lambda: None)


def up_and_go_back(world: AccountWorld) -> None:
    """Run `up` with the file as it was, which ends a rollback that has begun. Otherwise begin it again."""
    with suppress(upgrading.RolledBack):
        up(agent(world, NEW))
    if world.program.version == NEW:
        go_back(world)


def upgrade_to_broken(world: AccountWorld) -> None:
    with suppress(upgrading.RolledBack):
        up(agent(world, BROKEN))


def with_settings_that_fail(world: AccountWorld) -> None:
    with suppress(upgrading.WentBack):
        up(world.agent(OLD, backup=BACKUP, environment=f"{{COLOUR: {SILENT}}}"))


def install(world: AccountWorld) -> Folder:
    return Folder(world.folder / "install")


def with_install(world: AccountWorld) -> None:
    """Begin with a folder that somebody copied from an install without Paddock."""
    with_agent(world)
    world.program.stop()
    (world.folder / "install").mkdir()
    shutil.copytree(world.state / "home/.hermes", world.folder / "install/.hermes")
    down(agent(world))
    forgotten(world)


def imported(world: AccountWorld) -> None:
    importing.adopt(agent(world), Folder(world.folder / "install/.hermes"), None)


def imported_at_last(world: AccountWorld) -> None:
    """Import again. If the state is in place already, `up` does the rest, as the refusal says."""
    try:
        imported(world)
    except PaddockError:
        up(agent(world))


def existing_files(world: AccountWorld) -> None:
    """Begin with files where the state of the agent is to be."""
    home = world.state
    home.mkdir(parents=True)
    (home / "notes.md").write_text(FACT)


def claimed(world: AccountWorld) -> None:
    adopting.adopt(agent(world), AdoptTarget())


def is_claimed(world: AccountWorld) -> bool:
    """Claim the files again, which changes nothing."""
    before = home(world)
    claimed(world)
    return home(world) == before


def home(world: AccountWorld) -> str | None:
    return world.checksum("home")


def scenario(
    verb: str,
    name: str,
    prepare: Callable[[AccountWorld], object],
    run: Callable[[AccountWorld], object],
    done: Callable[[AccountWorld], bool],
    kept: Callable[[AccountWorld], object],
    **more: Any,
) -> Scenario:
    safe = (lambda world: True) if verb == "forget" or prepare is nothing else has_fact
    return Scenario(verb, f"{name}, in an account", AccountWorld, prepare, run, done, kept, safe, **more)


def has_fact(world: AccountWorld) -> bool:
    """Whether the home of the agent, or what is to become it, has what nobody else knows."""
    return FACT in world.knows() or any(
        FACT in path.read_text(errors="replace")
        for path in world.folder.rglob("*")
        if path.name in ("notes.md", "state.db")
    )


def nothing(_: AccountWorld) -> None: ...


SCENARIOS = [
    scenario("up", "a new agent", nothing, lambda w: up(agent(w)), is_up(), knows(FACT)),
    scenario("up", "a change that fails", with_agent, with_settings_that_fail, is_up(), knows(FACT)),
    scenario("up", "a killed restore", half_restored, lambda w: up(agent(w)), is_up(), knows(FACT, "news")),
    scenario("down", "an agent", with_agent, lambda w: down(agent(w)), is_down, knows(FACT)),
    scenario("forget", "an agent", taken_down, forgotten, lambda w: plan_forget(agent(w))[1].empty, knows(FACT)),
    scenario("upgrade", "a version that works", with_agent, lambda w: up(agent(w, NEW)), is_up(NEW), knows(FACT)),
    scenario("upgrade", "a version that is broken", with_agent, upgrade_to_broken, is_up(), knows(FACT)),
    scenario("rollback", "to the version before", upgraded, go_back, is_up(), knows(FACT), again=up_and_go_back),
    scenario("backup", "to a folder", with_agent, lambda w: backup.make(agent(w)), is_up(), knows(FACT)),
    scenario("restore", "from a folder", backed_up, restored, is_up(), knows(FACT, "news"), again=restored_at_last),
    scenario("restore", "in vain", poisoned, restored_in_vain, is_up(), knows(FACT, POISON), again=up_with_what_works),
    scenario("import", "a folder", with_install, imported, is_up(), knows(FACT), again=imported_at_last),
    scenario(
        "adopt",
        "existing files",
        existing_files,
        claimed,
        is_claimed,
        home,
    ),
]
