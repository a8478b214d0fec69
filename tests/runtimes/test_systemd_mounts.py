"""Directories of the host in the words of a unit."""

from __future__ import annotations

from paddock.runtimes.systemd.mounts import Mounts
from paddock.spec.machine import MountSpec


def test_a_machine_made_for_the_agent_has_them_mounted_and_starts_nothing_without() -> None:
    seen = Mounts([MountSpec(host="/data", path="/data"), MountSpec(host="/fast", path="/fast", read_only=True)], True)
    assert seen.conditions == "AssertPathIsMountPoint=/data\nAssertPathIsMountPoint=/fast\n"
    assert seen.service == "ReadWritePaths=/data\nReadOnlyPaths=/fast\n"


def test_on_a_host_they_are_shown_where_the_agent_wants_them() -> None:
    seen = Mounts([MountSpec(host="/srv/a", path="/data"), MountSpec(host="/srv/b", path="/b", read_only=True)], False)
    assert seen.conditions == ""
    assert seen.service == "BindPaths=/srv/a:/data\nBindReadOnlyPaths=/srv/b:/b\n"
