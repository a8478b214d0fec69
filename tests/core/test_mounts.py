"""Checks of the host directories that an agent mounts, run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import NeedsPerson
from paddock.channels.local import LocalGuest
from paddock.core import files as mounts
from paddock.file.models.whole import AgentSpec
from paddock.kinds import agent_from

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="tries directories with other ids, which takes root")


def agent(**mount: Any) -> AgentSpec:
    user = {"name": "bee", "uid": 12345}
    return agent_from({"kind": "service", "command": ["x"], "place": "-", "user": user, "mounts": [mount]})


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """Return a folder that other users can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if (
            folder.stat().st_uid == os.geteuid()
            and folder != Path("/")
            and folder.name.startswith(("pytest", "popen-gw", "test_"))
        ):
            folder.chmod(0o755)
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def check(spec: AgentSpec, *, made_for_it: bool = False) -> None:
    mounts.check(LocalGuest(), spec, "112345:112345", made_for_it=made_for_it)


def test_a_mount_that_the_agent_can_write_to_passes(open_path: Path) -> None:
    os.chown(open_path, 12345, 12345)
    check(agent(host=str(open_path), path="/data"))


def test_a_mount_of_another_user_is_an_error_with_the_chown_command(open_path: Path) -> None:
    with pytest.raises(NeedsPerson, match=r"bee \(uid 12345\) may not write to .*, which uid 0 owns") as caught:
        check(agent(host=str(open_path), path="/data"))
    assert caught.value.hint == f"on the host: chown 112345:112345 {open_path}"
    check(agent(host=str(open_path), path="/data", read_only=True))


def test_the_mount_point_of_a_disk_is_rejected_unless_read_only() -> None:
    with pytest.raises(NeedsPerson, match="/sys is a mount point, which the agent cannot own") as caught:
        check(agent(host="/sys", path="/data"))
    assert caught.value.hint == "choose a directory below it under mounts:"
    check(agent(host="/sys", path="/data", read_only=True))


def test_a_missing_directory_is_an_error(open_path: Path) -> None:
    with pytest.raises(NeedsPerson, match=f"there is no directory {open_path}/more"):
        check(agent(host=f"{open_path}/more", path="/data"))


def test_a_plain_directory_instead_of_a_mount_is_an_error(open_path: Path) -> None:
    os.chown(open_path, 12345, 12345)
    with pytest.raises(NeedsPerson, match=f"but is not mounted at {open_path} there"):
        check(agent(host="/mnt/pve/hdd/bee", path=str(open_path)), made_for_it=True)
