"""What goes into a stream comes out of it again."""

from __future__ import annotations

import gzip
import io
import os
import sqlite3
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import DATA
from onboard.streams import LIMIT, Refused, receive_here, received, sent, sent_here
from paddock.backups import verified
from paddock.onboard.stream import reading
from paddock.onboard.stream import send as sending
from paddock.onboard.stream.layout import BadStream
from paddock.onboard.stream.reading import check

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)
TREES = st.recursive(
    st.binary(max_size=3000), lambda inside: st.dictionaries(NAMES, inside, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))


def put(folder: Path, tree: dict[str, object]) -> None:
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        elif isinstance(content, dict):
            put(folder / name, content)


def tree_of(folder: Path) -> dict[str, object]:
    return {entry.name: tree_of(entry) if entry.is_dir() else entry.read_bytes() for entry in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@settings(max_examples=30, deadline=None)
@given(TREES)
def test_any_tree_comes_back(tree: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        put(folder / "home", tree)
        receive_here(sent_here(folder / "home"), folder / "back")
        assert tree_of(folder / "back") == tree


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_two_streams_of_the_same_state_differ_only_in_their_manifests(home: Path) -> None:
    for name in ("b", "a", "c/d", "c/a"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(name)
    first, second = (sent(home) for _ in range(2))
    assert first.partition(b"manifest.json")[0] == second.partition(b"manifest.json")[0]
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert tar.getnames() == ["state/a", "state/b", "state/c", "state/c/a", "state/c/d", "manifest.json"]


def test_modes_times_and_links_come_back(home: Path, tmp_path: Path) -> None:
    (home / "run").write_text("#!/bin/sh\n")
    (home / "run").chmod(0o4755)
    (home / "inside").mkdir(mode=0o700)
    (home / "inside/link").symlink_to("../run")
    os.utime(home / "run", (1_000_000_000, 1_000_000_000))
    received(sent(home), tmp_path / "back")
    back = (tmp_path / "back/run").stat()
    # A file of a state does not run with the rights of its owner.
    assert (stat.S_IMODE(back.st_mode), int(back.st_mtime)) == (0o755, 1_000_000_000)
    assert stat.S_IMODE((tmp_path / "back/inside").stat().st_mode) == 0o700
    assert (tmp_path / "back/inside/link").readlink() == Path("../run")


def test_what_leaves_the_state_is_reported_and_left_out(home: Path, tmp_path: Path) -> None:
    (home / "out").symlink_to("/etc/passwd")
    (home / "up").symlink_to("../staging")
    os.mkfifo(home / "pipe")
    (home / "kept").write_text("kept")
    found = received(sent(home), tmp_path / "back")
    assert {each["path"] for each in found["left_out"]} == {"out", "up", "pipe"}
    assert names(tmp_path / "back") == ["kept"]


def test_a_name_that_is_not_text_comes_back(home: Path, tmp_path: Path) -> None:
    name = os.fsencode(home) + b"/caf\xe9\n"
    Path(os.fsdecode(name)).write_bytes(b"x")
    received(sent(home), tmp_path / "back")
    assert names(tmp_path / "back") == [os.fsdecode(b"caf\xe9\n")]


def test_what_can_be_rebuilt_stays_behind(home: Path, tmp_path: Path) -> None:
    for name in ("logs/a.log", "x_cache/y", "memories/MEMORY.md", "deep/logs/kept"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    received(sent(home, rebuilt=["logs", "*_cache"]), tmp_path / "back")
    assert names(tmp_path / "back") == ["deep", "memories"]
    assert (tmp_path / "back/deep/logs/kept").exists()


@pytest.mark.parametrize("pieces", [(), ((0, b"x"),), ((5 << 20, b"middle"),), ((0, b"a"), (40 << 20, b"z" * 5000))])
def test_a_file_with_holes_stays_sparse(home: Path, tmp_path: Path, pieces: tuple[tuple[int, bytes], ...]) -> None:
    with (home / "sparse").open("wb") as file:
        file.truncate(64 << 20)
        for start, data in pieces:
            file.seek(start)
            file.write(data)
    stream = sent(home)
    assert len(stream) < 1 << 20
    received(stream, tmp_path / "back")
    assert (tmp_path / "back/sparse").read_bytes() == (home / "sparse").read_bytes()
    assert (tmp_path / "back/sparse").stat().st_blocks * 512 < 4 << 20


def test_gnu_tar_reads_a_stream(home: Path, tmp_path: Path) -> None:
    (home / "memories").mkdir()
    (home / "memories/MEMORY.md").write_text("the gate code is 7421\n")
    with (home / "sparse").open("wb") as file:
        file.truncate(8 << 20)
        file.seek(4 << 20)
        file.write(b"middle")
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=sent(home), check=True)
    assert (tmp_path / "state/memories/MEMORY.md").read_text() == "the gate code is 7421\n"
    assert (tmp_path / "state/sparse").read_bytes() == (home / "sparse").read_bytes()


def test_a_database_is_copied_while_it_is_written(home: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home / "state.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA user_version=22")
        database.execute("CREATE TABLE messages (text)")
        database.executemany("INSERT INTO messages VALUES (?)", [(f"message {number}",) for number in range(10)])
        database.commit()
        assert (home / "state.db-wal").stat().st_size > 0
        database.execute("INSERT INTO messages VALUES ('not committed')")
        stream = sent(home)
    found = received(stream, tmp_path / "back")
    assert found["schemas"] == {"state.db": 22}
    assert names(tmp_path / "back") == ["state.db"]
    with closing(sqlite3.connect(tmp_path / "back/state.db")) as copy:
        assert copy.execute("SELECT count(*) FROM messages").fetchone() == (10,)
    assert names(home.parent / "staging") == []


def test_a_damaged_database_is_sent_as_it_is(home: Path, tmp_path: Path) -> None:
    damaged = b"SQLite format 3\0" + b"\xff" * 5000
    (home / "state.db").write_bytes(damaged)
    (home / "state.db-wal").write_bytes(b"beside")
    found = received(sent(home), tmp_path / "back")
    assert [each["path"] for each in found["as_files"]] == ["state.db"]
    assert (tmp_path / "back/state.db").read_bytes() == damaged
    assert (tmp_path / "back/state.db-wal").read_bytes() == b"beside"


def test_a_file_that_changes_is_sent_again(home: Path, tmp_path: Path) -> None:
    """The writer keeps both halves of a file equal, except for a moment between its two writes."""
    file = home / "pair"
    half = 3 << 20
    file.write_bytes(b"0" * 2 * half)
    writer = f"""
import time
with open({str(file)!r}, "r+b", buffering=0) as file:
    for number in range(40):
        for start in (0, {half}):
            file.seek(start)
            file.write(bytes([48 + number % 10]) * {half})
        time.sleep(0.03)
"""
    with subprocess.Popen([sys.executable, "-c", writer]) as writing:
        streams = []
        while writing.poll() is None:
            streams.append(sent(home))
    for number, stream in enumerate(streams):
        back = tmp_path / f"back{number}"
        received(stream, back)
        manifest = reading.check(io.BytesIO(stream), LIMIT)
        content = (back / "pair").read_bytes()
        assert content[:half] == content[half:] or manifest["entries"][0].get("unstable")


def test_a_growing_file_is_sent_once(home: Path) -> None:
    log = home / "log.jsonl"
    log.write_bytes(b"line\n" * 200_000)
    appending = f"import time\nwith open({str(log)!r}, 'ab', buffering=0) as f:\n while True: f.write(b'line\\n')"
    with subprocess.Popen([sys.executable, "-c", appending]) as writing:
        stream = sent(home, growing=["*.jsonl"])
        writing.kill()
    with tarfile.open(fileobj=io.BytesIO(stream)) as tar:
        assert tar.getnames() == ["state/log.jsonl", "manifest.json"]


def test_a_folder_that_is_too_deep_is_reported(home: Path, tmp_path: Path) -> None:
    current = os.open(home, os.O_RDONLY)
    for _ in range(250):
        os.mkdir("d", dir_fd=current)
        inside = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inside
    os.close(current)
    found = received(sent(home), tmp_path / "back")
    assert "deep" in found["left_out"][0]["why"]


def test_a_folder_that_exists_is_not_written_to(home: Path, tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    with pytest.raises(Refused):
        received(sent(home), tmp_path / "back")


def test_only_some_files_are_sent_if_that_is_asked(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes/learned.md").write_text("tea")
    (home / "notes/other.bin").write_bytes(b"x")
    with closing(sqlite3.connect(home / "memory.db")) as database:
        database.execute("create table t (x)")
    manifest = reading.check(io.BytesIO(sent(home, only=["**/*.md"])), LIMIT)
    assert [entry["path"] for entry in manifest["entries"] if entry["type"] == "file"] == ["notes/learned.md"]


def test_a_damaged_database_is_named_if_that_is_asked(home: Path) -> None:
    with closing(sqlite3.connect(home / "memory.db")) as database:
        database.executescript("create table t (x text); create index i on t (x);")
        database.executemany("insert into t values (?)", [(f"{number:0500}",) for number in range(500)])
        database.commit()
    (home / "torn.db").write_bytes((home / "memory.db").read_bytes()[:8192] + b"\xff" * 4096)
    manifest = reading.check(io.BytesIO(sent(home, examine=True)), LIMIT)
    assert [each["path"] for each in manifest["damaged"]] == ["torn.db"]
    assert reading.check(io.BytesIO(sent(home)), LIMIT)["damaged"] == []


def test_databases_come_first_and_the_largest_one_of_all(home: Path) -> None:
    for name, rows in (("a/small.db", 1), ("z/large.db", 900)):
        (home / name).parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(home / name)) as database:
            database.execute("CREATE TABLE messages (content TEXT)")
            database.executemany("INSERT INTO messages VALUES (?)", [["x" * 100]] * rows)
            database.commit()
    with tarfile.open(fileobj=io.BytesIO(sent(home))) as tar:
        names = tar.getnames()
    assert names[:4] == ["state/z", "state/z/large.db", "state/a", "state/a/small.db"]
    assert (names[-1], len(names)) == ("manifest.json", len(set(names)))
    others = [name for name in names[4:-1] if name.count("/") == 1]
    assert others == sorted(others)


def test_headers_have_no_long_runs_of_zeros_and_every_tar_reads_them(home: Path, tmp_path: Path) -> None:
    long = "/".join(["a folder with a long name"] * 6)
    (home / long).mkdir(parents=True)
    (home / long / "ä file").write_text("in a deep folder")
    (home / "a link").symlink_to(f"{long}/ä file")
    stream = sent(home)
    assert bytes(64) not in stream.rstrip(b"\0")
    (tmp_path / "stream.tar").write_bytes(stream)
    (tmp_path / "unpacked").mkdir()
    command = ["tar", "-xf", str(tmp_path / "stream.tar"), "-C", str(tmp_path / "unpacked")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "unpacked/state/a link").read_text() == "in a deep folder"


def test_a_file_that_is_almost_only_a_hole_takes_no_time(home: Path, tmp_path: Path) -> None:
    """An agent makes such a file in no time. To hash its zeros took hours."""
    for name, end in (("huge", 16 << 40), ("tail", 4 << 40)):
        with (home / name).open("wb") as file:
            file.write(b"begin")
            file.truncate(end - (1 << 20))
    with (home / "tail").open("ab") as file:
        file.write(b"end")
    began = time.monotonic()
    stream = sent(home)
    received(stream, tmp_path / "back")
    verified.check(io.BytesIO(stream))
    assert time.monotonic() - began < 10
    for name in ("huge", "tail"):
        before, after = (home / name).stat(), (tmp_path / "back" / name).stat()
        assert (after.st_size, after.st_blocks < 64) == (before.st_size, True)
    with (tmp_path / "back/tail").open("rb") as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == b"end"
    manifest = check(io.BytesIO(stream), LIMIT)
    assert manifest["format"] == 2
    assert [entry["holes"] for entry in manifest["entries"]] == [True, True]


def test_without_holes_a_stream_has_the_format_that_earlier_versions_read(home: Path) -> None:
    (home / "a").write_text("a")
    assert check(io.BytesIO(sent(home)), LIMIT)["format"] == 1


def test_a_stream_of_an_earlier_version_with_holes_is_restored(tmp_path: Path) -> None:
    """Its hashes are those of the whole content."""
    stream = gzip.decompress((DATA / "streams/v1-with-holes.tar.gz").read_bytes())
    assert check(io.BytesIO(stream), LIMIT)["format"] == 1
    received(stream, tmp_path / "back")
    assert (tmp_path / "back/memory/facts").read_text() == "the gate code is 7421\n"
    content = (tmp_path / "back/map").read_bytes()
    assert content == (b"begin" * 100).ljust(3 << 20, b"\0") + (b"middle" * 100).ljust(2 << 20, b"\0")


def test_pieces_between_holes_that_were_changed_are_noticed(home: Path, tmp_path: Path) -> None:
    with (home / "map").open("wb") as file:
        file.write(b"begin" * 1000)
        file.truncate(1 << 30)
    stream = sent(home)
    for before, after in ((b"beginbegin", b"beginBegin"), (b"2\n0\n8192\n", b"2\n0\n4096\n")):
        assert before in stream
        with pytest.raises(BadStream):
            check(io.BytesIO(stream.replace(before, after, 1)), LIMIT)


def test_a_file_of_too_many_pieces_is_left_out_if_its_holes_are_large(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MOST_PIECES", 3)
    for name, size in (("small", 1 << 20), ("large", 2 << 30)):
        with (home / name).open("wb") as file:
            file.truncate(size)
            for at in range(0, 1 << 20, 1 << 17):
                file.seek(at)
                file.write(b"x")
    manifest = check(io.BytesIO(sent_here(home)), LIMIT)
    assert [entry["path"] for entry in manifest["entries"]] == ["small"]
    assert manifest["left_out"] == [{"path": "large", "why": "it has too many holes"}]
