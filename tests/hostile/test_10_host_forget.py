"""Finding 10: `forget` on a host could not be resumed after a kill, and deleted files on mounted filesystems."""

from __future__ import annotations

from typing import Final

import pytest

from hostile import agents
from hostile.ground import Machine, as_root
from paddock.plan import agent as inside
from paddock.process import Result
from paddock.runtimes.machine import delete_state
from paddock.runtimes.systemd.runtime import Systemd

pytestmark = as_root

RUNTIME: Final = agents.systemd()


def forget(ground: Machine, runtime: Systemd = RUNTIME) -> Result:
    return ground.run(delete_state(runtime.agent, runtime.paths))


@pytest.fixture
def down(ground: Machine) -> Machine:
    """Install an agent, write to its state, and take the agent down."""
    agents.installed(ground, RUNTIME)
    ground.agent('cd "$1" && mkdir deep && echo learned >deep/notes', RUNTIME.paths.home)
    assert ground.run(RUNTIME.remove()).ok
    return ground


def test_a_forget_that_failed_midway_is_finished_by_the_next_one(down: Machine) -> None:
    """A mount that cannot be deleted stops the first run midway, as a kill would."""
    down.root('mkdir "$1/deep/busy" && mount -t tmpfs none "$1/deep/busy"', RUNTIME.paths.home)
    forget(down)  # fails midway, or is refused
    down.root(
        'umount "$1"/home/deep/busy 2>/dev/null || umount /var/lib/paddock/.p*/home/deep/busy', RUNTIME.paths.state
    )
    seen = agents.seen(down, RUNTIME)
    known = bool(seen.state_of) or bool(getattr(seen, "forgotten", None))
    left = down.run(["find", "/var/lib/paddock", "-name", "notes"]).out
    assert known or not left, f"the next run would not notice the files that are left: {left}"
    result = forget(down)
    assert result.ok, f"the second forget failed: {result.err}"
    assert not down.exists(RUNTIME.paths.state)


def test_a_forget_killed_after_the_rename_is_observed_and_finished(down: Machine) -> None:
    down.root(
        'mv "$1" /var/lib/paddock/.paddock-forgotten-home_bee && rm -r /var/lib/paddock/.*_bee/.paddock',
        RUNTIME.paths.state,
    )
    seen = agents.seen(down, RUNTIME)
    assert getattr(seen, "forgotten", None), "the observation does not report the rest of the state"
    want = inside.AgentWant(None, "g", "s", foreground=False)
    refusal = inside.refusal("bee", want, seen)
    assert refusal is not None
    assert "paddock forget" in str(refusal.hint)
    assert forget(down).ok
    assert not down.exists("/var/lib/paddock/.paddock-forgotten-home_bee")


def test_a_forget_killed_while_it_deletes_is_observed_and_finished(down: Machine) -> None:
    """The identity file may be deleted first."""
    down.root(
        """printf '#!/bin/sh\nfor last; do :; done\n/usr/bin/rm -rf "$last/.paddock"\nexit 137\n' >/usr/local/sbin/rm
        chmod 755 /usr/local/sbin/rm"""
    )
    assert not forget(down).ok
    down.root("/usr/bin/rm /usr/local/sbin/rm")
    seen = agents.seen(down, RUNTIME)
    left = down.run(["find", "/var/lib/paddock", "-name", "notes"]).out
    assert seen.state_of or getattr(seen, "forgotten", None), f"the observation does not report {left}"
    assert forget(down).ok
    assert not down.run(["find", "/var/lib/paddock", "-name", "notes"]).out


@pytest.mark.parametrize("kind", ["bind", "tmpfs"])
def test_forget_deletes_nothing_on_a_mounted_filesystem(down: Machine, kind: str) -> None:
    down.root("mkdir -p /srv/photos && echo dear >/srv/photos/one")
    down.root('mkdir "$1/photos"', RUNTIME.paths.home)
    if kind == "bind":
        down.root('mount --bind /srv/photos "$1/photos"', RUNTIME.paths.home)
    else:
        down.root('mount -t tmpfs none "$1/photos" && echo dear >"$1/photos/one"', RUNTIME.paths.home)
    result = forget(down)
    photo = "/srv/photos/one" if kind == "bind" else f"{RUNTIME.paths.home}/photos/one"
    assert down.exists(photo), "files of another filesystem were deleted through a mount"
    assert not result.ok
    assert "umount" in result.err
    assert down.exists(f"{RUNTIME.paths.home}/deep/notes"), "a refused forget deleted files"
