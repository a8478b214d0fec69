"""Files that hold an image: what they are, and which one, so that none is loaded twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.errors import BadInput

_SAVED: Final = {"manifest.json", "oci-layout", "index.json"}
_ROOT: Final = {"etc", "usr", "bin"}


@dataclass(frozen=True)
class Archive:
    """An image in a file."""

    path: Path
    digest: str
    verb: str  # load, what `save` wrote; import, what a root filesystem is

    @classmethod
    def at(cls, path: Path) -> Archive:
        """The archive at a path; what was found out about a large file is remembered until the file is another one."""
        try:
            facts = path.stat()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
        name = hashlib.sha256(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock/archives"
        try:
            digest, verb = (cache / name).read_text().split()
        except (OSError, ValueError):
            found = cls.examine(path)
            with contextlib.suppress(OSError):  # it only saves reading the file again
                cache.mkdir(parents=True, exist_ok=True)
                (cache / name).write_text(f"{found.digest} {found.verb}")
            return found
        return cls(path, digest, verb)

    @classmethod
    def examine(cls, path: Path) -> Archive:
        """Read all of the file; one that is cut off or something else is told here and not on the machine."""
        names: set[str] = set()
        promised: set[str] = set()
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            with tarfile.open(path) as tar:
                for entry in tar:
                    names.add(entry.name.removeprefix("./"))
                    if entry.name == "manifest.json" and (manifest := tar.extractfile(entry)):
                        promised |= _promised(manifest.read())
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
        except (tarfile.TarError, EOFError) as error:
            raise BadInput(f"{path} is no whole tar archive: {error}", hint="make it anew: docker save") from None
        if lost := sorted(promised - names):
            raise BadInput(f"{path} is no whole image: it has no {lost[0]}", hint="make it anew: docker save")
        tops = {name.partition("/")[0] for name in names}
        if tops & _SAVED:
            return cls(path, digest, "load")
        if tops >= _ROOT:
            return cls(path, digest, "import")
        raise BadInput(f"{path} holds neither an image nor a root filesystem", hint="docker save IMAGE > FILE")

    @property
    def name(self) -> str:
        """The image's name once it is on the machine."""
        return f"localhost/paddock/archive:{self.digest[:12]}"


def _promised(manifest: bytes) -> set[str]:
    """The files that the images of an archive are made of."""
    try:
        return {name for image in json.loads(manifest) for name in (image["Config"], *image["Layers"])}
    except (ValueError, TypeError, KeyError):
        return set()  # not as `docker save` writes it; what it is worth, the engine says
