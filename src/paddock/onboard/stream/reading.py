"""Read a stream and verify it against its manifest. Runs on this machine, and on machines without Paddock."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from paddock.onboard.stream.layout import (
    BLOCK,
    HEADERS,
    HOLES,
    LONGEST_MANIFEST,
    MANIFEST,
    MOST_ENTRIES,
    MOST_NAMES,
    PASSES,
    PREFIX,
    BadStream,
    Json,
    listed_pieces,
    parse_manifest,
    parts_of,
    stays_inside,
)

_ZEROS = bytes(BLOCK)


# What was read of an entry, in little memory: its type; the target of a link; of a file its size, its hash, whether
# its holes are not part of that, and how many bytes were read.
_Found = tuple[Any, ...]
_FOLDER: _Found = ("folder",)


class Forward:
    """Reads a stream for `tarfile`, which asks for positions; the position only grows.

    The own streams of `tarfile` copy their whole buffer with each read, which takes most of the time. What `tarfile`
    may read is limited: it believes a header that claims to be as large as the memory.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self.allowance = HEADERS

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seekable(self) -> bool:
        return True

    def seek(self, position: int) -> int:
        """Skip to a position."""
        if position < self._at:
            raise tarfile.ReadError("an entry lies before the one that was read last")
        while position > self._at and self.read(min(position - self._at, BLOCK)):
            pass
        return self._at

    def read(self, size: int) -> bytes:
        """Read so many bytes, or fewer at the end."""
        self.allowance -= size
        if self.allowance < 0:
            raise tarfile.ReadError("a header is too large")
        data = self._stream.read(size)
        self._at += len(data)
        return data


class Reader:
    """Reads the entries of a stream in order. Then the manifest says which of them are valid."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = cast(Any, Forward(stream))
        self._left = limit  # for the files of the state
        self._to_read = limit * (PASSES + 1)  # with those that are in the stream again
        self._limit = limit
        self._found: dict[str, _Found] = {}
        self._entries = 0  # also those that are in the stream again
        self._names = 0  # characters of their paths
        self._targets = 0  # characters of the targets of links
        self._manifest: Json | None = None
        self.manifest_hash = ""

    def __iter__(self) -> Iterator[tuple[str, tarfile.TarInfo]]:
        """Yield path and header of each entry below the state. The reader of a file's header has to `copy` it."""
        with _damage_refused(), tarfile.open(fileobj=self._stream, mode="r:") as self._tar:
            while header := self._tar.next():
                vars(self._tar)["members"].clear()  # it would keep every header in memory
                self._stream.allowance = HEADERS
                if self._manifest is not None:
                    raise BadStream("it goes on after its manifest")
                if header.name == MANIFEST:
                    data = self._read(header, self._longest_manifest())
                    self.manifest_hash = hashlib.sha256(data).hexdigest()
                    self._manifest = parse_manifest(data, len(self._found))
                else:
                    yield self._checked(header), header

    def _longest_manifest(self) -> int:
        """Return how long a manifest can be for what was read. JSON may take 12 characters for one, in two places."""
        longest = (1 << 20) + 1000 * len(self._found) + 24 * self._names + 12 * self._targets
        return min(longest, LONGEST_MANIFEST)

    def _checked(self, header: tarfile.TarInfo) -> str:
        if not header.name.startswith(PREFIX):
            raise BadStream(f"{header.name[:80]!r} is not an entry of a state")
        path = header.name[len(PREFIX) :]
        self._entries += 1
        self._names += 0 if path in self._found else len(path)
        if len(self._found) >= MOST_ENTRIES or self._entries > MOST_ENTRIES * (PASSES + 1):
            raise BadStream(f"it has more than {MOST_ENTRIES} entries")
        if self._names + self._targets > MOST_NAMES:
            raise BadStream(f"its names are longer than {MOST_NAMES >> 20} MiB together")
        above = "/".join(parts_of(path)[:-1])
        if above and self._found.get(above) != _FOLDER:
            raise BadStream(f"the folder of {path!r} is missing")
        if path in self._found and not (header.isreg() and self._found[path][0] == "file"):
            raise BadStream(f"{path!r} is there twice, and is not a file")
        if header.isdir():
            self._found[path] = _FOLDER
        elif header.issym():
            if not stays_inside(path, header.linkname):
                raise BadStream(f"the link {path!r} leads out of the state")
            self._found[path] = ("link", header.linkname)
            self._targets += len(header.linkname)
        elif not header.isreg():
            raise BadStream(f"{path!r} is neither a file, a folder nor a link")
        return path

    def copy(
        self,
        path: str,
        header: tarfile.TarInfo,
        write: Callable[[bytes], object] | None = None,
        skip: Callable[[int], object] | None = None,
    ) -> None:
        """Read the content of a file, hash it, and pass it on. Holes go to ``skip``, or are zeros without it."""
        pieces = _pieces(path, header)
        size = header.size if pieces is None else sum(length for _, length in pieces)
        before = self._found.get(path, _FOLDER)
        self._left -= size - (before[-1] if before[0] == "file" else 0)
        self._to_read -= size
        if min(self._left, self._to_read, header.size) < 0:
            raise BadStream(f"its files are larger than {self._limit} bytes together")
        hashed = hashlib.sha256()
        for data in self._blocks(header) if pieces is None else self._with_holes(header, pieces, hashed, write, skip):
            hashed.update(data)
            size -= len(data)
            if write is not None:
                write(data)
        if size:
            raise BadStream(f"{path!r} is truncated")
        taken = header.size if pieces is None else sum(length for _, length in pieces)
        self._found[path] = ("file", header.size, hashed.digest(), pieces is not None, taken)

    def _with_holes(
        self,
        header: tarfile.TarInfo,
        pieces: Sequence[tuple[int, int]],
        hashed: Any,
        write: Callable[[bytes], object] | None,
        skip: Callable[[int], object] | None,
    ) -> Iterator[bytes]:
        """Yield the pieces of a file, whose hash begins with their list, and pass on the holes between them."""
        hashed.update(listed_pieces(pieces))
        self._stream.allowance = header.size + HEADERS
        with _damage_refused():
            self._stream.seek(header.offset_data)
        at = 0
        for start, length in pieces:
            if skip is not None:
                skip(start - at)
            elif write is not None:
                for filled in range(0, start - at, BLOCK):
                    write(_ZEROS[: min(BLOCK, start - at - filled)])
            left = length
            while left:
                with _damage_refused():
                    data = self._stream.read(min(left, BLOCK))
                if not data:
                    return
                left -= len(data)
                yield data
            at = start + length

    def _blocks(self, header: tarfile.TarInfo) -> Iterator[bytes]:
        self._stream.allowance = header.size + HEADERS
        with _damage_refused():
            self._stream.seek(header.offset_data)
            source = self._tar.extractfile(header) if header.issparse() else self._stream
        left = header.size
        while source and left:
            with _damage_refused():
                data = source.read(min(left, BLOCK))
            if not data:
                return
            left -= len(data)
            yield data

    def _read(self, header: tarfile.TarInfo, most: int) -> bytes:
        if not header.isreg() or not 0 <= header.size <= most:
            raise BadStream("its manifest is not a file of a usable size")
        return b"".join(self._blocks(header))

    def manifest(self) -> Json:
        """Return the manifest, after every entry of it was compared with what was read."""
        if self._manifest is None:
            raise BadStream("it has no manifest, so it is truncated")
        for entry in self._manifest["entries"]:
            found = self._found.get(entry["path"])
            if found is None:
                raise BadStream(f"{entry['path']!r} is missing")
            if found[:4] != _according_to(entry):
                raise BadStream(f"{entry['path']!r} is not what its manifest says")
        return self._manifest

    def superseded(self, manifest: Json) -> list[str]:
        """Return the files that were removed from the state while it was read. The manifest does not name them."""
        named = {entry["path"] for entry in manifest["entries"]}
        extra = [path for path in self._found if path not in named]
        for path in extra:
            if self._found[path][0] != "file":
                raise BadStream(f"its manifest does not name {path!r}")
        return extra


def _according_to(entry: Json) -> _Found:
    """Return what has to be read of an entry of the manifest."""
    if entry["type"] == "file":
        return ("file", entry["size"], bytes.fromhex(entry["sha256"]), entry.get("holes", False))
    return ("link", entry["target"]) if entry["type"] == "link" else _FOLDER


def _pieces(path: str, header: tarfile.TarInfo) -> Sequence[tuple[int, int]] | None:
    """Return the pieces of a file whose holes are not hashed; None of another file."""
    if header.pax_headers.get(HOLES) is None:
        return None
    pieces, at = getattr(header, "sparse", None) or [], 0
    for start, length in pieces:
        if start < at or length < 0:
            raise BadStream(f"the pieces of {path!r} are not in order")
        at = start + length
    if at != header.size:
        raise BadStream(f"the pieces of {path!r} do not end with it")
    return pieces


@contextmanager
def _damage_refused() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, MemoryError, ValueError) as error:
        raise BadStream(f"it is truncated or damaged: {error}") from None


Take = Callable[[str, tarfile.TarInfo], "Callable[[bytes], object] | None"]


def check(stream: IO[bytes], limit: int, take: Take = lambda path, header: None) -> Json:
    """Read a stream completely and return its manifest. Raise if it is not complete."""
    return read_all(stream, limit, take)[0]


def read_all(stream: IO[bytes], limit: int, take: Take) -> tuple[Json, str]:
    """Read a stream completely; return its manifest, and the SHA-256 of that. Raise if it is not complete.

    ``take`` gets path and header of each file, and may return a function that gets its content.
    """
    reader = Reader(stream, limit)
    for path, header in reader:
        if header.isreg():
            reader.copy(path, header, take(path, header))
    manifest = reader.manifest()
    reader.superseded(manifest)
    return manifest, reader.manifest_hash


def is_zero(data: bytes) -> bool:
    """Return whether a block contains only zeros, so that a file can have a hole there."""
    return data == _ZEROS[: len(data)]
