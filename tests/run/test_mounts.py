"""Directories of the host, tried on this very machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import NeedsPerson
from paddock.guests.local import LocalGuest
from paddock.run import mounts
from paddock.spec.models import AgentSpec, agent_from

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="tries directories with other ids, which takes root")


def agent(**mount: Any) -> AgentSpec:
    user = {"name": "bee", "uid": 12345}
    return agent_from({"kind": "service", "command": ["x"], "place": "-", "user": user, "mounts": [mount]})


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """A folder that others can get to."""
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


def test_one_that_is_the_agents_passes(open_path: Path) -> None:
    os.chown(open_path, 12345, 12345)
    check(agent(host=str(open_path), path="/data"))


def test_one_of_somebody_else_is_named_with_the_command_for_the_host(open_path: Path) -> None:
    with pytest.raises(NeedsPerson, match=r"bee \(uid 12345\) may not write to .*, where uid 0 owns it") as caught:
        check(agent(host=str(open_path), path="/data"))
    assert caught.value.hint == f"on the host: chown 112345:112345 {open_path}"
    check(agent(host=str(open_path), path="/data", read_only=True))


def test_the_top_of_a_disk_is_nobodys_to_give_away() -> None:
    with pytest.raises(
        NeedsPerson, match="/sys is where a disk is mounted, and not a directory of the agent's own"
    ) as caught:
        check(agent(host="/sys", path="/data"))
    assert caught.value.hint == "write a directory below it under mounts:"
    check(agent(host="/sys", path="/data", read_only=True))


def test_one_that_is_not_there(open_path: Path) -> None:
    with pytest.raises(NeedsPerson, match=f"there is no directory {open_path}/more"):
        check(agent(host=f"{open_path}/more", path="/data"))


def test_a_directory_where_a_mount_should_be(open_path: Path) -> None:
    os.chown(open_path, 12345, 12345)
    with pytest.raises(NeedsPerson, match=f"but nothing is mounted at {open_path} there"):
        check(agent(host="/mnt/pve/hdd/bee", path=str(open_path)), made_for_it=True)
