"""The directories under ``mounts:`` as lines of a unit."""

from __future__ import annotations

from paddock.file.models.machine import MountSpec
from paddock.runtimes.systemd.confine import Mounts


def test_units_require_the_mounts_of_a_machine_made_for_the_agent() -> None:
    seen = Mounts([MountSpec(host="/data", path="/data"), MountSpec(host="/fast", path="/fast", read_only=True)], True)
    assert seen.conditions == "AssertPathIsMountPoint=/data\nAssertPathIsMountPoint=/fast\n"
    assert seen.service == "ReadWritePaths=/data\nReadOnlyPaths=/fast\n"


def test_units_on_a_host_bind_each_mount_to_its_path() -> None:
    seen = Mounts([MountSpec(host="/srv/a", path="/data"), MountSpec(host="/srv/b", path="/b", read_only=True)], False)
    assert seen.conditions == ""
    assert seen.service == "BindPaths=/srv/a:/data\nBindReadOnlyPaths=/srv/b:/b\n"
