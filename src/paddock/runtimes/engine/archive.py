"""Image archives: their kind and digest, so that no image is loaded twice."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from paddock.base import bounded, folders
from paddock.base.errors import BadInput
from paddock.base.frozen import frozen

_SAVED: Final = {"manifest.json", "oci-layout", "index.json"}
_ROOT: Final = {"etc", "usr", "bin"}
_COMPRESSED: Final[Mapping[bytes, Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_LONGEST_MANIFEST: Final = 8 << 20  # and of the headers of an entry
_MOST_ENTRIES: Final = 2_000_000
_AGAIN: Final = "create it again: docker save"


@frozen
class Archive:
    """A file that contains an image."""

    path: Path
    digest: str
    verb: str  # load for the output of `docker save`, import for a root filesystem

    @classmethod
    def at(cls, path: Path) -> Archive:
        """Return the archive at a path. Its digest and kind are cached until the file changes."""
        try:
            facts = path.stat()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
        name = hashlib.sha256(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()[:16]
        cache = folders.cache() / "paddock/archives"
        try:
            digest, verb = (cache / name).read_text().split()
        except (OSError, ValueError):
            found = cls.examine(path)
            with contextlib.suppress(OSError):  # the cache only saves time
                folders.make_private(cache)
                (cache / name).write_text(f"{found.digest} {found.verb}")
            return found
        return cls(path, digest, verb)

    @classmethod
    def examine(cls, path: Path) -> Archive:
        """Read the whole file. A truncated archive or another kind of file is an error, before anything is sent."""
        names: set[str] = set()
        promised: set[str] = set()
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            for name, content in _entries(path):
                names.add(name.removeprefix("./"))
                promised |= _promised(content)
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, bounded.TooLarge) as error:
            raise BadInput(f"{path} is not a complete tar archive: {error}", hint=_AGAIN) from None
        if missing := sorted(promised - names):
            raise BadInput(f"{path} is not a complete image: it has no {missing[0]}", hint=_AGAIN)
        tops = {name.partition("/")[0] for name in names}
        if tops & _SAVED:
            return cls(path, digest, "load")
        if tops >= _ROOT:
            return cls(path, digest, "import")
        raise BadInput(f"{path} contains neither an image nor a root filesystem", hint="docker save IMAGE > FILE")

    @property
    def name(self) -> str:
        """The name that the image gets on the machine."""
        return f"localhost/paddock/archive:{self.digest[:12]}"


def _entries(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names in an archive, and the content of its manifest. An archive can claim to be of any size."""
    with path.open("rb") as file:
        start = file.read(6)
    opener = next((opener for magic, opener in _COMPRESSED.items() if start.startswith(magic)), open)
    with opener(path, "rb") as unpacked:
        source = bounded.Rationed(unpacked, _LONGEST_MANIFEST)
        with tarfile.open(fileobj=cast(Any, source), mode="r:") as tar:
            for _ in range(_MOST_ENTRIES):
                if (entry := tar.next()) is None:
                    return
                vars(tar)["members"].clear()  # it would keep every header in memory
                wanted = entry.name == "manifest.json" and entry.size <= _LONGEST_MANIFEST // 2
                content = tar.extractfile(entry) if wanted else None
                yield entry.name, content.read() if content else b""
                source.renew()
            raise bounded.TooLarge(f"it has more than {_MOST_ENTRIES} entries")


def _promised(manifest: bytes) -> set[str]:
    """Return the files of the archive that its manifest requires."""
    try:
        images = bounded.parsed(manifest) if manifest else []
        return {str(name) for image in images for name in (image["Config"], *image["Layers"])}
    except (ValueError, TypeError, KeyError):
        return set()  # `docker save` did not write it; the engine decides whether it is valid
