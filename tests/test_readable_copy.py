"""The program that tests use to find a readable copy of a state finds good ones, and only good ones."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from pyrage import x25519

import readable_copy
from onboard.streams import sent
from paddock.backups.folder import FolderDestination
from paddock.backups.verified import Verified
from paddock.onboard.stream.layout import matcher
from readable_copy import copies, examined, expected

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    home = tmp_path / "state/home"
    (home / "memories").mkdir(parents=True)
    (home / "memories/MEMORY.md").write_text("the gate code is 7421\n")
    (home / "link").symlink_to("memories/MEMORY.md")
    with closing(sqlite3.connect(home / "state.db")) as database:
        database.execute("CREATE TABLE messages (content TEXT)")
        database.execute("INSERT INTO messages VALUES ('hello')")
        database.commit()
    return home.parent


@pytest.fixture(params=["plain", "encrypted"])
def backups(request: pytest.FixtureRequest, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    key = x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(key))
    found = FolderDestination(tmp_path / "backups", [str(key.to_public())] if request.param == "encrypted" else [])
    found.check()
    with Verified(BytesIO(sent(state / "home")), matcher([]), lambda count: None) as stream:
        found.save(stream, NOON)
    return found.folder


def test_a_home_and_a_backup_are_copies(state: Path, backups: Path) -> None:
    wanted = expected(state / "home")
    assert sorted(wanted) == ["memories/MEMORY.md", "state.db"]
    assert len(copies(wanted, state, backups)) == 2
    (state / "home").rename(state / "gone")
    assert copies(wanted, state, backups) == [str(next(backups.glob("*.tar.zst*")))]
    (state / ".paddock").mkdir()
    (state / "gone").rename(state / ".paddock/before")
    assert copies(wanted, state) == [str(state / ".paddock/before")]


HARM: dict[str, Callable[[Path], object]] = {
    "a file is missing": lambda home: (home / "memories/MEMORY.md").unlink(),
    "a file has another content": lambda home: (home / "memories/MEMORY.md").write_text("the gate code is 7422\n"),
    "the database is damaged": lambda home: (home / "state.db").write_bytes(
        (home / "state.db").read_bytes()[:4096] + b"\x07" * 4096
    ),
    "the database is truncated": lambda home: (home / "state.db").write_bytes((home / "state.db").read_bytes()[:5000]),
    "there is no home": shutil.rmtree,
}


@pytest.mark.parametrize("what", HARM)
def test_a_home_that_lacks_something_is_none(what: str, state: Path) -> None:
    wanted = expected(state / "home")
    HARM[what](state / "home")
    assert copies(wanted, state) == []


@pytest.mark.parametrize("harm", ["flip", "cut", "no description", "another key", "no manifest"])
def test_an_archive_that_lacks_something_is_none(
    harm: str, state: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = expected(state / "home")
    archive = next(backups.glob("*.tar.zst*"))
    content = bytearray(archive.read_bytes())
    if harm == "flip":
        content[len(content) // 2] ^= 1
    elif harm == "cut":
        del content[-20:]
    elif harm == "no description":
        (backups / "2026-11-16T12-00-00Z.json").unlink()
    elif harm == "another key" and archive.suffix == ".age":
        monkeypatch.setenv("PADDOCK_AGE_KEY", str(x25519.Identity.generate()))
    elif harm == "no manifest" and archive.suffix == ".zst":
        tar = readable_copy.unsealed(archive).replace(b"manifest.json", b"manifest.text")
        content = bytearray(zstandard.compress(tar))
    else:
        pytest.skip("the other kind of archive shows it")
    archive.write_bytes(content)
    assert copies(wanted, backups=backups) == []


def test_the_program_says_what_it_found(state: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps(expected(state / "home")))
    command = [sys.executable, readable_copy.__file__, "--state", str(state), str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"{state}/home: a complete copy")
    (state / "home/memories/MEMORY.md").unlink()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert examined(json.loads(wanted.read_text()), state)[1][f"{state}/home"] == "memories/MEMORY.md is missing"
