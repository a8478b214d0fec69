"""Find a readable copy of a state, without Paddock's code: `readable_copy.py [--state DIR] [--backups DIR] WANTED`

A program for tests that kill Paddock at any moment. A copy is a home with all the files that the test has put there,
with the same content, or an archive in a folder of backups that its own manifest describes completely. Databases have
to pass SQLite's check. Prints each copy, and why the others are none. The exit code is 0 if there is at least one.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

SQLITE = b"SQLite format 3\0"
TYPES = {"file": tarfile.TarInfo.isreg, "folder": tarfile.TarInfo.isdir, "link": tarfile.TarInfo.issym}


class NotReadable(Exception):
    """Why something is not a copy of the state."""


def digest(content: bytes) -> str:
    """Return the hash by which contents are compared."""
    return hashlib.sha256(content).hexdigest()


def expected(home: Path) -> dict[str, str]:
    """Return the files of a home with their hashes, before anything is killed. Databases have none: they may change."""
    found = {}
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(("-wal", "-shm", "-journal")):
            content = path.read_bytes()
            found[str(path.relative_to(home))] = "" if content.startswith(SQLITE) else digest(content)
    return found


def copies(wanted: Mapping[str, str], state: Path | None = None, backups: Path | None = None) -> list[str]:
    """Return where a complete copy of the files is: homes of a state, and archives."""
    return examined(wanted, state, backups)[0]


def examined(
    wanted: Mapping[str, str], state: Path | None = None, backups: Path | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return where a complete copy is, and for everything else why it is none."""
    found: list[str] = []
    why: dict[str, str] = {}
    homes = [state / "home", state / ".paddock/before", state / ".paddock/incoming"] if state else []
    archives = sorted(backups.rglob("*.tar.zst*")) if backups else []
    for path, read in [*((each, files_of_home) for each in homes), *((each, files_of_archive) for each in archives)]:
        try:
            expect_files(wanted, read(path))
        except (NotReadable, OSError) as error:
            why[str(path)] = str(error)
        else:
            found.append(str(path))
    return found, why


def expect_files(wanted: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """Raise unless the files are there, with their content, and the databases are intact."""
    for path, hashed in wanted.items():
        content = files.get(path)
        if content is None:
            raise NotReadable(f"{path} is missing")
        if hashed and digest(content) != hashed:
            raise NotReadable(f"{path} has another content")
    for path, content in files.items():
        if content.startswith(SQLITE):
            expect_intact(path, files)


def expect_intact(path: str, files: Mapping[str, bytes]) -> None:
    """Raise unless SQLite reads a database completely, with the files beside it."""
    with tempfile.TemporaryDirectory() as made:
        for suffix in ("", "-wal", "-journal"):
            if (content := files.get(path + suffix)) is not None:
                (Path(made) / f"copy.db{suffix}").write_bytes(content)
        try:
            with closing(sqlite3.connect(f"{made}/copy.db")) as database:
                said = database.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            said = str(error)
        if said != "ok":
            raise NotReadable(f"the database {path} is damaged: {said}")


def files_of_home(home: Path) -> dict[str, bytes]:
    """Return the files of a home."""
    if not home.is_dir():
        raise NotReadable("it does not exist")
    paths = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def files_of_archive(path: Path) -> dict[str, bytes]:
    """Return the files of an archive that its manifest describes completely."""
    description = path.parent / f"{path.name.partition('.')[0]}.json"
    if not description.exists():
        raise NotReadable("it is not complete: it has no description")
    entries: dict[str, tarfile.TarInfo] = {}
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(unsealed(path))) as tar:
            for entry in tar:
                entries[entry.name] = entry
                if entry.isreg():
                    source = tar.extractfile(entry)
                    contents[entry.name] = source.read() if source else b""
        manifest: dict[str, Any] = json.loads(contents.pop("manifest.json"))
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise NotReadable(f"it is not a tar with a manifest: {error!r}") from None
    if next(reversed(entries)) != "manifest.json":
        raise NotReadable("its manifest is not the last entry")
    return dict(described_files(manifest, entries, contents))


def described_files(
    manifest: Mapping[str, Any], entries: Mapping[str, tarfile.TarInfo], contents: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that a manifest names. Raise if one of its entries is missing or another one."""
    for each in manifest["entries"]:
        entry = entries.get(f"state/{each['path']}")
        if entry is None or not TYPES[each["type"]](entry):
            raise NotReadable(f"{each['path']} is missing")
        if each["type"] == "link" and entry.linkname != each["target"]:
            raise NotReadable(f"{each['path']} leads elsewhere")
        if each["type"] == "file":
            content = contents[entry.name]
            if (len(content), digest(content)) != (each["size"], each["sha256"]):
                raise NotReadable(f"{each['path']} is not what the manifest says")
            yield each["path"], content


def unsealed(path: Path) -> bytes:
    """Decrypt and decompress an archive."""
    import zstandard

    sealed = path.read_bytes()
    if path.suffix == ".age":
        sealed = decrypted(sealed)
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(sealed)) as stream:
            return bytes(stream.read())
    except zstandard.ZstdError as error:
        raise NotReadable(f"it cannot be decompressed: {error}") from None


def decrypted(sealed: bytes) -> bytes:
    """Decrypt with the identities in PADDOCK_AGE_KEY."""
    from pyrage import DecryptError, decrypt, x25519

    keys = [line for line in os.environ.get("PADDOCK_AGE_KEY", "").splitlines() if line.startswith("AGE-SECRET-KEY-")]
    try:
        plain: bytes = decrypt(sealed, [x25519.Identity.from_str(key) for key in keys])
    except DecryptError as error:
        raise NotReadable(f"it cannot be decrypted: {error}") from None
    return plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, help="the folder of a state, with home and .paddock in it")
    parser.add_argument("--backups", type=Path, help="a folder with backups")
    parser.add_argument("wanted", type=Path, help="JSON: the files that have to be there, with their hashes")
    options = parser.parse_args()
    found, why = examined(json.loads(options.wanted.read_bytes()), options.state, options.backups)
    for path in found:
        print(f"{path}: a complete copy")
    for path, reason in why.items():
        print(f"{path}: {reason}")
    sys.exit(0 if found else 1)


if __name__ == "__main__":
    main()
