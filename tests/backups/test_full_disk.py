"""A full disk at either end of a backup or a restore: a message, and the state is untouched."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyrage import x25519

from backups.repositories import new_repository
from backups.verbs import Agent

MIB = 1 << 20


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk that is small enough to fill")
    made = Disks(tmp_path)
    yield made
    made.remove()


class Disks:
    """Small disks, below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mounted: list[Path] = []

    def mount(self, name: str, size: int) -> Path:
        """Mount a disk of so many MiB."""
        point = self._folder / name
        point.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(point)]).returncode:
            pytest.skip("a tmpfs cannot be mounted on this machine")
        self._mounted.append(point)
        return point

    def grow(self, point: Path, size: int) -> None:
        """Give a disk another size."""
        subprocess.run(["mount", "-o", f"remount,size={size}m", str(point)], check=True)

    def remove(self) -> None:
        for point in reversed(self._mounted):
            subprocess.run(["umount", "--lazy", str(point)], check=True)


def free_on(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return up(tmp_path)


def up(folder: Path, to: str = "./backups", large: int = 8) -> Agent:
    """Deploy an agent with so many MiB of data that cannot be compressed."""
    agent = Agent.up(folder, to, folder / "xdg_data_home")
    (agent.home / "large").write_bytes(os.urandom(large * MIB))
    return agent


@pytest.mark.parametrize("sealed", ["plain", "encrypted"])
def test_the_folder_of_the_backups_is_full(
    sealed: str, agent: Agent, tmp_path: Path, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sealed == "encrypted":
        key = x25519.Identity.generate()
        monkeypatch.setenv("PADDOCK_AGE_KEY", str(key))
        text = agent.file.read_text().replace("backups}", f"backups, recipients: [{key.to_public()}]}}")
        agent.file.write_text(text)
    before = agent.content()
    disk = disks.mount("backups", 4)
    assert agent.refused("backup").message == f"there is no room for a backup in {agent.backups}"
    assert list(agent.backups.iterdir()) == []
    assert agent.content() == before
    disks.grow(disk, 40)
    agent.run("backup")
    agent.run("backup", "check", "web")


def test_there_is_room_for_the_archive_but_not_for_its_description(agent: Agent, disks: Disks) -> None:
    disk = disks.mount("backups", 40)
    agent.run("backup")
    size = next(agent.backups.glob("*.tar.zst")).stat().st_size
    for path in agent.backups.iterdir():
        path.unlink()
    (disk / "filler").write_bytes(bytes(free_on(disk) - (size + -size % 4096)))
    message = agent.refused("backup").message
    assert message.startswith(f"cannot write {agent.backups}")
    assert message.endswith(".json: No space left on device")
    assert list(agent.backups.iterdir()) == []
    (disk / "filler").unlink()
    agent.run("backup")
    assert len(list(agent.backups.glob("*.json"))) == 1


@pytest.mark.skipif(shutil.which("restic") is None, reason="restic is not installed")
@pytest.mark.parametrize("full", ["repository", "temporary"])
def test_the_repository_or_the_temporary_folder_of_restic_is_full(
    full: str, tmp_path: Path, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPOSITORY_PASSWORD", "a word that nobody guesses")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    to = "{restic: {repository: ./repository, password: {env: REPOSITORY_PASSWORD}}}"
    disk = disks.mount(full, 1)
    new_repository(tmp_path / "repository", "a word that nobody guesses")
    if full == "temporary":
        monkeypatch.setenv("TMPDIR", str(disk))
    agent = up(tmp_path, to)
    before = agent.content()
    message = agent.refused("backup").message
    expected = f"the restic repository {tmp_path}/repository has no space left"
    own = f"this machine's disk is full: restic cannot write its temporary files to {disk}"
    assert message.startswith(expected if full == "repository" else own)
    assert agent.content() == before
    disks.grow(disk, 100)
    assert len(agent.run("backup", "list").splitlines()) == 1, "only the header"
    agent.run("backup")
    agent.run("backup", "check", "web")


def test_there_is_no_room_on_the_machine_for_the_copy_of_a_database(
    tmp_path: Path, disks: Disks, capfd: pytest.CaptureFixture[str]
) -> None:
    disk = disks.mount("xdg_data_home/paddock/web", 70)
    agent = up(tmp_path, large=1)
    with closing(sqlite3.connect(agent.home / "state.db")) as database:
        database.execute("CREATE TABLE messages (content TEXT)")
        database.executemany("INSERT INTO messages VALUES (?)", [["x" * 1000]] * 5000)
        database.commit()
    before = agent.content()
    capfd.readouterr()
    agent.run("backup")
    assert "state.db: there is no room for a copy of" in capfd.readouterr().err
    assert agent.content() == before
    disks.grow(disk, 200)
    time.sleep(1)  # the name of a backup is its time in seconds
    agent.run("backup")
    assert "no room" not in capfd.readouterr().err


def test_there_is_no_room_on_the_machine_for_the_restored_state(tmp_path: Path, disks: Disks) -> None:
    disk = disks.mount("xdg_data_home/paddock/web", 200)
    agent = up(tmp_path, large=20)
    agent.run("backup")
    disks.grow(disk, 100)
    (agent.home / "memories/MEMORY.md").write_text("newer\n")
    before = agent.content()
    message = agent.refused("restore", "web", "--yes").message
    assert "there is no room for it: it needs 21 MiB more and 64 MiB that stay free, and there are 79 MiB" in message
    assert (agent.content(), agent.left()) == (before, [])
    disks.grow(disk, 200)
    agent.run("restore", "web", "--yes")
    assert (agent.home / "memories/MEMORY.md").read_text() == "the gate code is 7421\n"
    assert agent.left() == ["before"]  # an agent in the foreground keeps it


def test_the_disk_of_the_machine_becomes_full_during_a_restore(tmp_path: Path, disks: Disks) -> None:
    """The description of the backup claims that it is small."""
    disk = disks.mount("xdg_data_home/paddock/web", 200)
    agent = up(tmp_path, large=20)
    agent.run("backup")
    [description] = agent.backups.glob("*.json")
    text = description.read_text()
    description.write_text(text.replace('"length": ', '"length": 1, "was": '))
    disks.grow(disk, 100)
    before = agent.content()
    assert "there is no room for it" in agent.refused("restore", "web", "--yes").message
    assert (agent.content(), agent.left()) == (before, [])


def test_the_temporary_folder_of_this_machine_is_full(
    agent: Agent, tmp_path: Path, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = disks.mount("temporary", 1)
    monkeypatch.setenv("TMPDIR", str(disk))
    (disk / "filler").write_bytes(bytes(free_on(disk)))
    agent.run("backup")
    agent.run("backup", "check", "web")
    agent.run("restore", "web", "--yes")
    assert agent.left() == ["before"]  # an agent in the foreground keeps it
