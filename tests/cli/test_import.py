"""``paddock adopt --from``: an install becomes the state of an agent, and stays as it is."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cli.conftest import Paddock
from levels import by_level
from paddock.core import perform

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  toy: {kind: service, place: here, runtime: process, command: [/bin/true]}
  other: {kind: service, place: here, runtime: process, command: [/bin/true]}
"""
# Ends without closing the database, so that its last rows are only in the file beside it.
UNFINISHED = """
import os, sqlite3
database = sqlite3.connect("old/state.db")
database.execute("pragma journal_mode=wal")
database.execute("create table facts (text)")
database.execute("insert into facts values ('the gate code is 7421')")
database.commit()
os._exit(0)
"""
STEPS = ("state.check", "source.retire", "state.receive", "state.swap", "agent.configure")


class Killed(BaseException):
    """The run was killed."""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "paddock.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    old = tmp_path / "old"
    (old / "memories").mkdir(parents=True)
    (old / "memories/MEMORY.md").write_text("the gate code is 7421")
    (old / "run").write_text("#!/bin/sh\n")
    (old / "run").chmod(0o755)
    (old / "inside").symlink_to("memories")
    os.mkfifo(old / "pipe")
    subprocess.run([sys.executable, "-c", UNFINISHED], check=True)
    os.utime(old / "memories/MEMORY.md", (1_500_000_000, 1_500_000_001))
    assert (old / "state.db-wal").stat().st_size > 0
    return old


def listing(folder: Path) -> dict[str, object]:
    """Return everything about a folder, and the access times of all but links, which Linux cannot read quietly."""
    found: dict[str, object] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        entry = path.lstat()
        accessed = 0 if path.is_symlink() else entry.st_atime_ns
        found[str(path)] = (entry.st_mode, entry.st_uid, entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, accessed)
    return found


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def home(tmp_path: Path, agent: str = "toy") -> Path:
    return tmp_path / f"xdg_data_home/paddock/{agent}/state/home"


def facts(database: Path) -> list[tuple[str]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute("select text from facts").fetchall()
    finally:
        connection.close()


def test_a_folder_is_copied_and_stays_as_it_is(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    hashes = contents(old)
    before = listing(old)
    shown = paddock("adopt", "toy", "--from", "./old")
    assert shown.code == 0, shown.err
    assert f"+ mark {old} on this machine as imported" in shown.err
    assert "nothing was changed; --yes carries out this plan" in shown.err
    assert not home(tmp_path).exists()
    assert paddock("adopt", "toy", "--from", "./old", "--yes", "--dry-run").err == shown.err

    done = paddock("adopt", "toy", "--from", "./old", "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith(f"toy: imported {old} from this machine, and is ready")
    assert "pipe: it is neither a file, a folder nor a link" in done.err
    assert listing(old) == before
    assert contents(old) == hashes
    new = home(tmp_path)
    assert (new / "inside/MEMORY.md").read_text() == "the gate code is 7421"
    assert int((new / "memories/MEMORY.md").stat().st_mtime) == 1_500_000_001
    assert (new / "run").stat().st_mode & 0o777 == 0o755
    assert not (new / "state.db-wal").exists()
    assert facts(new / "state.db") == [("the gate code is 7421",)]
    assert not list(Path("/run").glob("paddock-import-*"))


def test_a_second_import_is_refused(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    assert paddock("adopt", "toy", "--from", "./old", "--yes").code == 0
    (home(tmp_path) / "memories/MEMORY.md").write_text("learned since")
    for words in (("toy",), ("toy", "--yes")):
        again = paddock("adopt", *words, "--from", "./old")
        assert again.code == 4
        assert f"the agent has a state already, which was imported from {old} on this machine" in again.err
    for words in (("other",), ("other", "--yes")):
        another = paddock("adopt", *words, "--from", "./old")
        assert another.code == 4
        assert f"{old} on this machine was already imported: home_toy at here" in another.err
    assert (home(tmp_path) / "memories/MEMORY.md").read_text() == "learned since"
    assert not home(tmp_path, "other").exists()


def test_an_agent_that_was_used_gets_no_import(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    assert paddock("up", "--only", "toy").code == 0
    (home(tmp_path) / "precious").write_text("1")
    before = listing(old)
    refused = paddock("adopt", "toy", "--from", "./old", "--yes")
    assert refused.code == 4
    assert "the agent has a state already" in refused.err
    assert listing(old) == before
    assert not list(tmp_path.glob("*.imported-by-paddock"))


def test_a_folder_in_use_is_not_imported(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    user = subprocess.Popen(["sleep", "60"], cwd=old)
    try:
        refused = paddock("adopt", "toy", "--from", "./old", "--yes")
    finally:
        user.kill()
        user.wait()
    assert refused.code == 4
    assert f"{old} on this machine is in use by process {user.pid} (sleep 60)" in refused.err
    assert not list(tmp_path.glob("*.imported-by-paddock"))
    assert not home(tmp_path).exists()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS[:: by_level(2, 1)])
def test_an_import_that_was_killed_goes_on(
    paddock: Paddock, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    hashes = contents(old)
    before = listing(old)
    really = perform._perform
    actions = {"state.check": "ExpectNewState", "source.retire": "RetireOrigin", "state.receive": "ReceiveState"}
    actions |= {"state.swap": "SwapState", "agent.configure": "ApplyBundle"}

    def killed(agent: object, action: object, *more: object) -> object:
        if type(action).__name__ == actions[step]:
            if when == "after":
                really(agent, action, *more)  # type: ignore[arg-type]
            raise Killed
        return really(agent, action, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(perform, "_perform", killed)
        with pytest.raises(Killed):
            paddock("adopt", "toy", "--from", "./old", "--yes")
    again = paddock("adopt", "toy", "--from", "./old", "--yes")
    received = STEPS.index(step) + (when == "after") > STEPS.index("state.swap")
    assert again.code == (4 if received else 0), again.err
    if received:
        assert "`paddock up --only toy` ends it" in again.err or "the agent has a state already" in again.err
        assert paddock("up", "--only", "toy").code == 0
    assert facts(home(tmp_path) / "state.db") == [("the gate code is 7421",)]
    assert (home(tmp_path) / "memories/MEMORY.md").read_text() == "the gate code is 7421"
    assert not (home(tmp_path).parent / ".paddock/before").exists()
    assert listing(old) == before
    assert contents(old) == hashes


def test_a_zip_file_is_imported_and_stays_as_it_is(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile("old.zip", "w") as archive:
        for path in sorted(old.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.write(path, path.relative_to(old))
    before = Path("old.zip").read_bytes(), Path("old.zip").stat().st_mtime_ns
    done = paddock("adopt", "toy", "--from", "./old.zip", "--yes")
    assert done.code == 0, done.err
    assert (Path("old.zip").read_bytes(), Path("old.zip").stat().st_mtime_ns) == before
    assert facts(home(tmp_path) / "state.db") == [("the gate code is 7421",)]
    assert "already imported" in paddock("adopt", "other", "--from", "./old.zip", "--yes").err


def test_an_archive_that_leads_out_of_the_state_changes_nothing(paddock: Paddock, old: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile("bad.zip", "w") as archive:
        archive.writestr("../../../escaped", "x")
    refused = paddock("adopt", "toy", "--from", "./bad.zip", "--yes")
    assert refused.code == 1
    assert "is not a path below the state" in refused.err
    assert not home(tmp_path).exists()
    assert not list(tmp_path.rglob("escaped"))
    assert not list(tmp_path.glob("*.imported-by-paddock"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "nowhere"), "nowhere is neither a container, a host, a zip file nor a folder"),
        (("--from", "118"), "there is no container 118 in here"),
        (("105", "--from", "./old"), "--from copies an install: it needs no other argument"),
        (("--from", "./old", "--host-key", "x"), "--host-key is for a container"),
        (("--host-key", "x"), "--host-key is for --from"),
    ],
)
def test_wrong_arguments_are_a_sentence(paddock: Paddock, old: Path, words: tuple[str, ...], said: str) -> None:
    refused = paddock("adopt", "toy", *words)
    assert refused.code == 2
    assert said in refused.err
