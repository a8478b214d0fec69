"""What is small to send and large to read takes little memory and time, whatever its format is.

Each reader runs in a process of its own, which may not have more memory than the test says. By default the bombs are
small, and so is the memory; `--all` tries large ones.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from levels import by_level, slow_proof

MIB = 1 << 20
BASE = 300  # MiB of address space for Python and its libraries
NAME = "2026-11-16T12-00-00Z"
ABOUT = {"agent": "home_hermes", "kind": "hermes", "version": None, "files": 1, "bytes": 1, "length": 1}


def run(program: str, *arguments: object, mebibytes: int = 100, seconds: int = 60) -> str:
    """Run a reader with limited memory and time; return what it printed. It has to say what it thinks of the bomb."""
    most = (BASE + mebibytes) * MIB
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


# The texts beside a backup, and its description

TEXTS = """
import sys
from pathlib import Path
from paddock.backups.folder import FolderDestination
from paddock.backups.sealing import CannotOpen
destination = FolderDestination(Path(sys.argv[1]), [])
[backup] = destination.backups()
try:
    print(destination.texts(backup))
except CannotOpen as error:
    print(error)
"""


def pressed(start: bytes, more: bytes, times: int, end: bytes = b"") -> bytes:
    """Return the same bytes again and again, compressed."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [compressor.compress(start), *(compressor.compress(more) for _ in range(times)), compressor.compress(end)]
    return b"".join([*parts, compressor.flush()])


def long_window() -> bytes:
    """Return a frame that needs a gigabyte to be read."""
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=30, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return compressor.compress(bytes(MIB)) + compressor.flush()


LISTS = b"[]," * (MIB // 3)
TEXT_BOMBS: dict[str, Callable[[], bytes]] = {
    "one text": lambda: pressed(b'{"a":"', b"x" * MIB, by_level(100, 10_000), b'"}'),
    "lines": lambda: pressed(b'{"a":"', b"\\n" * (MIB >> 1), by_level(50, 60), b'"}'),
    "lists": lambda: pressed(b"[", LISTS, by_level(40, 5000), b"[]]"),
    "depth": lambda: pressed(b"[", b"[" * MIB, by_level(60, 60)),
    "zeros": lambda: pressed(b"", bytes(MIB), by_level(200, 10_000)),
    "a window": long_window,
}


@pytest.mark.parametrize("what", TEXT_BOMBS)
def test_texts_that_grow_without_end_are_none(what: str, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.json").write_text(json.dumps(ABOUT))
    (tmp_path / f"{NAME}.tar.zst").write_bytes(b"")
    (tmp_path / f"{NAME}.texts.json.zst").write_bytes(TEXT_BOMBS[what]())
    said = run(TEXTS, tmp_path, mebibytes=300)
    assert said == "None" or "is damaged" in said


LIST = """
import sys
from pathlib import Path
from paddock.backups.folder import FolderDestination
from paddock.base.errors import PaddockError
try:
    destination = FolderDestination(Path(sys.argv[1]), [])
    print(len(destination.backups()))
    print(destination.last_drill())
except PaddockError as error:
    print(error)
"""


def test_a_folder_full_of_descriptions_is_refused(tmp_path: Path) -> None:
    first = tmp_path / "2026-11-16T00-00-00Z.json"
    first.write_text(json.dumps({**ABOUT, "schemas": {f"{number}": "x" * 50 for number in range(15_000)}}))
    (tmp_path / "2026-11-16T00-00-00Z.tar.zst").write_bytes(b"")
    for number in range(1, 200):  # links, which take no room
        stamp = f"2026-11-16T{number // 60:02}-{number % 60:02}-00Z"
        os.link(first, tmp_path / f"{stamp}.json")
        os.link(tmp_path / "2026-11-16T00-00-00Z.tar.zst", tmp_path / f"{stamp}.tar.zst")
    assert "are longer than 64 MiB together" in run(LIST, tmp_path, mebibytes=300)


@pytest.mark.parametrize("content", [b"[" * 900_000, b"[" + b"[]," * 300_000 + b"[]]"], ids=["depth", "lists"])
def test_a_hostile_description_is_no_backup(content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.json").write_bytes(content)
    (tmp_path / f"{NAME}.tar.zst").write_bytes(b"")
    assert run(LIST, tmp_path) == "0\nNone"


def test_files_without_end_and_pipes_beside_backups_are_refused(tmp_path: Path) -> None:
    for name in ("drill.json", f"{NAME}.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
    assert "drill.json is longer than 64 KiB" in run(LIST, tmp_path)
    for name in ("drill.json", f"{NAME}.json"):
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / f"{NAME}.json")
    assert run(LIST, tmp_path) == "0\nNone"


# The archive

CHECK = """
import sys, zstandard
from paddock.backups.verified import Incomplete, check
with open(sys.argv[1], "rb") as file:
    try:
        check(zstandard.ZstdDecompressor().stream_reader(file))
    except Incomplete as error:
        print(error)
"""


def headers(count: int, name: Callable[[int], str]) -> Iterator[bytes]:
    for number in range(count):
        yield tarfile.TarInfo(f"state/{name(number)}").tobuf(tarfile.PAX_FORMAT)


def packed(path: Path, parts: Iterator[bytes], manifest: Iterator[bytes] | None = None, size: int = 0) -> Path:
    """Write a stream, compressed. The manifest is as long as it says."""
    header = tarfile.TarInfo("manifest.json")
    header.size = size
    with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as stream:
        for part in parts:
            stream.write(part)
        if manifest is not None:
            stream.write(header.tobuf())
            for part in manifest:
                stream.write(part)
            stream.write(bytes(-size % 512))
        stream.write(bytes(1024))
    return path


def test_many_entries_take_little_memory(tmp_path: Path) -> None:
    count = by_level(30_000, 300_000)
    path = packed(tmp_path / "bomb", headers(count, lambda number: f"{number:08}"))
    assert "it has no manifest" in run(CHECK, path, mebibytes=by_level(50, 200), seconds=by_level(60, 300))


@slow_proof
def test_more_than_a_million_entries_are_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "bomb", headers(1_000_100, lambda number: f"{number:08}"))
    assert "more than 1000000 entries" in run(CHECK, path, mebibytes=500, seconds=600)


def long_name(number: int) -> str:
    return "/".join(["d" * 250] * 16 + [f"{number:08}"])


def folders() -> Iterator[bytes]:
    for depth in range(1, 17):
        entry = tarfile.TarInfo("state/" + "/".join(["d" * 250] * depth))
        entry.type = tarfile.DIRTYPE
        yield entry.tobuf(tarfile.PAX_FORMAT)


def test_names_of_four_kilobytes_take_little_memory(tmp_path: Path) -> None:
    count = by_level(5_000, 40_000)

    def parts() -> Iterator[bytes]:
        yield from folders()
        yield from headers(count, long_name)

    said = run(CHECK, packed(tmp_path / "bomb", parts()), mebibytes=by_level(60, 300), seconds=120)
    assert ("it has no manifest" if count * 4000 < 128 * MIB else "its names are longer than 128 MiB") in said


def test_a_header_as_large_as_the_memory_is_refused(tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
        header = tarfile.TarInfo("state/a")
        header.type, header.size = kind, by_level(1, 7) << 30

        def parts(header: tarfile.TarInfo = header) -> Iterator[bytes]:
            yield header.tobuf()
            for _ in range(by_level(200, 2000)):
                yield bytes(MIB)

        assert "a header is too large" in run(CHECK, packed(tmp_path / "bomb", parts()), mebibytes=30)


def test_the_manifest_of_a_few_entries_cannot_have_many_values(tmp_path: Path) -> None:
    """Its length is limited by the entries that were read; this one has the most values for its length."""
    count = by_level(2000, 100_000)
    data = b"[" + b"[]," * (count * 300) + b"[]]"
    path = packed(tmp_path / "bomb", headers(count, lambda number: f"{number:08}"), iter([data]), len(data))
    said = run(CHECK, path, mebibytes=by_level(50, 400), seconds=by_level(60, 300))
    assert "larger than what it describes" in said


def test_commas_in_names_do_not_hide_many_values(tmp_path: Path) -> None:
    count = 2000
    data = b"[" + b"[]," * (count * 300) + b'[],"' + b"\\," * 1000
    path = packed(tmp_path / "bomb", headers(count, lambda number: f"{number:08}" + "," * 80), iter([data]), len(data))
    assert "larger than what it describes" in run(CHECK, path, mebibytes=50)


def test_a_manifest_of_names_with_commas_is_accepted() -> None:
    from paddock.onboard.stream.layout import has_at_most

    data = json.dumps({"entries": [{"path": "," * 100 + '"\\'} for _ in range(1000)]}).encode()
    assert has_at_most(data, 3000)
    assert not has_at_most(data, 1000)


# Images

EXAMINE = """
import sys
from pathlib import Path
from paddock.base.errors import BadInput
from paddock.runtimes.engine.archive import Archive
try:
    print(Archive.examine(Path(sys.argv[1])).verb)
except BadInput as error:
    print(error)
"""
PACKERS: dict[str, Callable[[Path], Any]] = {
    "gzip": partial(gzip.open, mode="wb", compresslevel=1),
    "bzip2": partial(bz2.open, mode="wb", compresslevel=1),
    "xz": partial(lzma.open, mode="wb", preset=0),
}


@pytest.mark.parametrize("format_", PACKERS)
@pytest.mark.parametrize("what", ["header", "manifest"])
def test_an_image_that_grows_without_end_is_refused(format_: str, what: str, tmp_path: Path) -> None:
    size = by_level(64, 500) * MIB
    header = tarfile.TarInfo("manifest.json")
    header.size = size
    header.type = tarfile.XHDTYPE if what == "header" else tarfile.REGTYPE
    path = tmp_path / "image"
    with PACKERS[format_](path) as file:
        file.write(header.tobuf())
        for _ in range(size // MIB):
            file.write(bytes(MIB))
        file.write(bytes(1024))
    said = run(EXAMINE, path, mebibytes=50, seconds=by_level(60, 300))
    assert "header of more than 8 MiB" in said if what == "header" else said == "load"


@pytest.mark.parametrize("format_", PACKERS)
def test_a_compressed_image_is_still_recognised(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "image"
    manifest = json.dumps([{"Config": "config.json", "Layers": ["layer.tar"]}]).encode()
    with PACKERS[format_](path) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for name in ("manifest.json", "config.json"):
            entry = tarfile.TarInfo(name)
            entry.size = len(manifest)
            tar.addfile(entry, io.BytesIO(manifest))
    assert "it has no layer.tar" in run(EXAMINE, path)


# Imports

UNZIP = """
import sys
from paddock.onboard.imports.folder import Unusable
from paddock.onboard.imports.folder import Zip
try:
    order = {"becomes": ".hermes", "beside": "", "known_by": ["config.yaml"], "wrappers": []}
    print(len(Zip(sys.argv[1], order).entries))
except Unusable as error:
    print(error)
"""


def test_a_zip_file_that_lists_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "backup.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.yaml", "a: 1\n")
    assert run(UNZIP, path) == "1"
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\5\6")
    room = by_level(60, 500) * MIB
    content[end + 12 : end + 16] = (room).to_bytes(4, "little")
    content[end + 16 : end + 20] = (0).to_bytes(4, "little")
    with path.open("wb") as file:
        file.truncate(room)
        file.seek(room)
        file.write(content[end:])
    assert "its list of entries is longer than 48 MiB" in run(UNZIP, path, mebibytes=40)


PROGRAM = """
import sys
from paddock.onboard.imports.users import output
print(len(output(sys.argv[1:]) or ""))
"""


def test_a_program_of_an_account_that_prints_without_end_is_killed() -> None:
    assert run(PROGRAM, "yes", mebibytes=60) == "0"
    assert run(PROGRAM, "sh", "-c", "yes >&2", mebibytes=60) == "0"
    assert run(PROGRAM, "echo", "hello") == "6"


# A repository

RESTIC = """
import os, sys
from pathlib import Path
from paddock.backups.repository import Repository
from paddock.backups.restic import ResticDestination
from paddock.base.errors import PaddockError
from paddock.file.agent_id import AgentId
from paddock.file.models.backup import ResticSpec
from paddock.file.secrets.sources import Source
spec = ResticSpec(repository="/nowhere", password=Source(env="A_PASSWORD"))
destination = ResticDestination(Repository(spec, Path("/")), AgentId("home", "hermes"), print)
try:
    print(getattr(destination, sys.argv[1])())
except PaddockError as error:
    print(error)
"""
PRINTS = {
    "without end": "exec yes '[[]]'",
    "many values": "printf '['; yes '[],' | head -c 30000000; printf '[]]'",
    "depth": "yes '[' | head -c 3000000",
    "another thing": "echo '[{\"id\": 7}]'",
    "no list": "echo 7",
}


@pytest.mark.parametrize("what", PRINTS)
@pytest.mark.parametrize("method", ["backups", "last_drill"])
def test_a_repository_that_says_too_much_is_refused(
    what: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "restic"
    program.write_text(f"#!/bin/sh\n{PRINTS[what]}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("A_PASSWORD", "x")
    said = run(RESTIC, method, mebibytes=200)
    assert "is longer than 64 MiB" in said if what == "without end" else "cannot be read" in said


def test_the_record_of_a_drill_in_a_repository_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [{"id": "a", "tree": "b", "time": "2026-11-16T12:00:00Z", "paths": ["/x"], "tags": ["paddock", "drill"]}]
    program = tmp_path / "restic"
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *snapshots*) echo '{json.dumps(listed)}';; *) exec yes;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("A_PASSWORD", "x")
    assert "is longer than 64 KiB" in run(RESTIC, "last_drill", mebibytes=60)


# A machine, an agent and a model

SAYS = """
import sys
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.channels.onboard import answer_of
from paddock.setup.trial import _parsed
text = {"depth": "[" * 3_000_000, "lists": "[" + "[]," * 2_500_000 + "[]]"}[sys.argv[1]]
said = Result(("x",), 0, '\\0{"code": 0, "value": ' + text + "}", "", 0)
try:
    answer = answer_of(said, "the machine")
except PaddockError as error:
    answer = error.message[:40]
print(answer, _parsed(text.encode()))
"""


@pytest.mark.parametrize("what", ["depth", "lists"])
def test_hostile_json_of_a_machine_or_a_model_is_none(what: str) -> None:
    assert run(SAYS, what, mebibytes=60) == "the answer of the machine is incomplete: None"


CHANNEL = """
import io, json, sys, types
from paddock.base.errors import PaddockError
from paddock.base.process import Pipes
from paddock.kinds.workload import Paths, Request
from paddock.core import channel
channel._LONGEST_ANSWER = 5 << 20
class Source(io.RawIOBase):
    def readline(self, size=-1):
        return b"\\0" + json.dumps({"say": {"id": 0, "line": "x" * 100_000}}).encode() + b"\\n"
paths = Paths(*["/x"] * len(Paths.__dataclass_fields__))
runtime = types.SimpleNamespace(paths=paths, inside=paths, owners=["root"], formers=[])
pipes = Pipes(io.BytesIO(), Source(), lambda: "", lambda: None)
found = channel.Channel(pipes, runtime, "the machine")
parts = found.stream(Request("GET", "http://127.0.0.1/", None, body=None, seconds=1))
count = 0
while True:
    part = parts.get(timeout=20)
    count += 1
    if "refused" in part:
        print(count < 100, part["refused"])
        break
import os; sys.stdout.flush(); os._exit(0)
"""


def test_an_answer_that_nobody_reads_as_fast_as_it_comes_has_an_end() -> None:
    assert run(CHANNEL, mebibytes=60) == "True its answer is longer than 5 MiB"


@pytest.mark.skipif(shutil.which("yes") is None, reason="yes is not installed")
def test_these_limits_can_fail() -> None:
    program = "import sys; print(len(open('/dev/zero', 'rb').read(1 << 30)))"
    with pytest.raises(AssertionError, match="MemoryError"):
        run(program, mebibytes=100)
