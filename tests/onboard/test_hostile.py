"""A damaged, truncated or hostile stream is refused, and nothing is written outside the folder."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.streams import LIMIT, Refused, received, sent
from paddock.onboard.stream import reading
from paddock.onboard.stream.layout import BadStream

Add = Callable[[tarfile.TarFile], None]


def entry(path: str, kind: str = "file", content: bytes = b"", **more: Any) -> dict[str, Any]:
    known = {"path": path, "type": kind, "mode": "644", "owner": "x", "group": "x", "mtime": 0}
    if kind == "file":
        known |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return {**known, **more}


def stream(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], manifest: object = ()) -> bytes:
    """Return a stream of any entries, with a manifest of any content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for each in entries:
            header, content = each if isinstance(each, tuple) else (each, b"")
            tar.addfile(header, io.BytesIO(content))
        if manifest is not None:
            said = {"format": 1, "user": "x", "entries": list(manifest)} if isinstance(manifest, tuple) else manifest
            tar.addfile(*file("manifest.json", json.dumps(said).encode()))
    return out.getvalue()


def file(name: str, content: bytes = b"") -> tuple[tarfile.TarInfo, Any]:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    return header, io.BytesIO(content)


def put(name: str, content: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    return file(name, content)[0], content


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def open_ended(stream: bytes) -> bytes:
    """Return a tar without the zeros that say that it ends."""
    needed = len(stream.rstrip(b"\0"))
    return stream[: needed + -needed % 512]


HOSTILE = {
    "a name with ..": stream(put("state/../escaped", b"x"), manifest=(entry("../escaped", content=b"x"),)),
    "an absolute name": stream(put("/tmp/escaped", b"x")),
    "a name outside the state": stream(put("escaped", b"x")),
    "an absolute name below the state": stream(put("state//tmp/escaped", b"x")),
    "a link to an absolute path": stream(special("state/a", tarfile.SYMTYPE, "/tmp")),
    "a link out of the state": stream(special("state/a", tarfile.SYMTYPE, "../../tmp")),
    "a file through a link": stream(
        special("state/a", tarfile.SYMTYPE, "b"),
        put("state/a/escaped", b"x"),
        manifest=(entry("a", "link", target="b"), entry("a/escaped", content=b"x")),
    ),
    "a link that only the manifest has": stream(manifest=(entry("a", "link", target="/etc"),)),
    "a hard link": stream(special("state/a", tarfile.LNKTYPE, "/etc/passwd")),
    "a device": stream(special("state/a", tarfile.CHRTYPE)),
    "a pipe": stream(special("state/a", tarfile.FIFOTYPE)),
    "no manifest": stream(put("state/a", b"x"), manifest=None),
    "a manifest that is not one": stream(put("state/a", b"x"), manifest=[1]),
    "another format": stream(manifest={"format": 3, "entries": []}),
    "a file that the manifest has and the stream has not": stream(manifest=(entry("a", content=b"x"),)),
    "a file with another content": stream(put("state/a", b"y"), manifest=(entry("a", content=b"x"),)),
    "a folder that the manifest does not name": stream(special("state/a", tarfile.DIRTYPE)),
    "a name twice in the manifest": stream(put("state/a", b"x"), manifest=(entry("a", content=b"x"),) * 2),
    "a folder in place of a file": stream(
        put("state/a", b"x"), special("state/a", tarfile.DIRTYPE), manifest=(entry("a", content=b"x"),)
    ),
    "a file in a folder that is missing": stream(put("state/a/b", b"x"), manifest=(entry("a/b", content=b"x"),)),
    "an entry after the manifest": open_ended(stream(put("state/a", b"x"), manifest=(entry("a", content=b"x"),)))
    + stream(put("state/b", b"x"), manifest=None),
    "nothing": b"",
    "text": b"this is not a tar\n" * 100,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_refused_and_nothing_is_written_outside(what: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="the stream cannot be used"):
        received(HOSTILE[what], tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["back"]
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_not_complete(what: str) -> None:
    with pytest.raises(BadStream):
        reading.check(io.BytesIO(HOSTILE[what]), LIMIT)


def test_a_file_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    zeros = stream(put("state/a", bytes(2 << 20)), manifest=(entry("a", content=bytes(2 << 20)),))
    with pytest.raises(Refused, match="larger than"):
        received(zeros, tmp_path / "back", limit=1 << 20)


def test_a_file_that_is_sent_again_counts_once(tmp_path: Path) -> None:
    large = bytes(range(256)) * 4096
    again = stream(put("state/a", large), put("state/a", large), manifest=(entry("a", content=large),))
    received(again, tmp_path / "back", limit=len(large))


def test_a_file_that_is_sent_again_without_end_is_refused(tmp_path: Path) -> None:
    large = bytes(range(256)) * 4096
    again = stream(*[put("state/a", large)] * 7, manifest=(entry("a", content=large),))
    with pytest.raises(Refused, match="larger than"):
        received(again, tmp_path / "back", limit=len(large))


def test_ten_gigabytes_of_zeros_are_refused_by_their_header(tmp_path: Path) -> None:
    header = tarfile.TarInfo("state/a")
    header.size = 10 << 30
    with pytest.raises(Refused, match="larger than"):
        received(header.tobuf(), tmp_path / "back", limit=1 << 30)


def test_a_hole_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    header, content = put("state/a", b"1\n10995116277760\n0\n".ljust(512, b"\0"))
    sparse = {"major": "1", "minor": "0", "name": "state/a", "realsize": str(10 << 40)}
    header.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    with pytest.raises(Refused, match="larger than"):
        received(stream((header, content)), tmp_path / "back", limit=1 << 30)


def test_a_header_as_large_as_the_memory_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("state/a")
    header.type, header.size = tarfile.XHDTYPE, 8 << 30
    with pytest.raises(Refused, match="the stream cannot be used"):
        received(header.tobuf(), tmp_path / "back")


@cache
def good() -> bytes:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made) / "home"
        (home / "memories").mkdir(parents=True)
        (home / "memories/MEMORY.md").write_text("the gate code is 7421\n")
        (home / "link").symlink_to("memories/MEMORY.md")
        (home / "data").write_bytes(bytes(range(256)) * 8)
        return sent(home)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_truncated_stream_is_refused(data: st.DataObject) -> None:
    # A tar ends with zeros, which are not needed.
    needed = len(good().rstrip(b"\0"))
    cut = data.draw(st.integers(0, needed - 1))
    with pytest.raises(BadStream):
        reading.check(io.BytesIO(good()[:cut]), LIMIT)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_stream_is_refused_or_the_same(data: st.DataObject) -> None:
    damaged = bytearray(good())
    where = data.draw(st.integers(0, len(damaged.rstrip(b"\0")) - 1))
    damaged[where] ^= 1 << data.draw(st.integers(0, 7))
    try:
        manifest = reading.check(io.BytesIO(bytes(damaged)), LIMIT)
    except BadStream:
        return
    # The bit was in a place that no one reads, or in what the manifest itself says about the stream.
    hashes = {each["path"]: each.get("sha256") for each in reading.check(io.BytesIO(good()), LIMIT)["entries"]}
    assert {each["path"]: each.get("sha256") for each in manifest["entries"]} == hashes
