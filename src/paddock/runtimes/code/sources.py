"""Source archives of Python packages: fetched by the hashes of a lock, for folders that the wheel does not have."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Final
from urllib.parse import urlsplit

from paddock.base.errors import PaddockError
from paddock.kinds.code import Distribution

_SECONDS: Final = 60.0  # without any data
_LARGEST: Final = 512 << 20


def locked_hashes(lock: str, name: str) -> list[str]:
    """Return the SHA-256 hashes in a lock for a package: of its wheels and of its source archive."""
    entry = re.search(rf"^{re.escape(name)}==.*\n(?:[ \t]+.*\n?)*", lock, re.MULTILINE)
    return re.findall(r"--hash=sha256:([0-9a-f]{64})", entry[0]) if entry else []


def kept(wanted: Distribution, sha256: str, cache: Path) -> Path:
    """Return where a source archive is kept."""
    return cache / f"{wanted.name}-{wanted.version}-{sha256[:16]}.tar.gz"


def found(wanted: Distribution, hashes: Sequence[str], cache: Path) -> Path | None:
    """Return the source archive if it was fetched before."""
    places = {kept(wanted, each, cache): each for each in hashes}
    return next((path for path, sha256 in places.items() if _has_hash(path, sha256)), None)


def fetch(wanted: Distribution, index: str, hashes: Sequence[str], cache: Path) -> Path:
    """Fetch the source archive that the index offers, and return it. A hash that is not in the lock is an error.

    ``index`` is what uv says about the package, as a pylock.toml.
    """
    url, sha256 = _offered(wanted, index)
    if sha256 not in hashes:
        raise PaddockError(
            f"the package index has other sources of {wanted.name} {wanted.version} than the lock: SHA-256 {sha256}",
            hint="do not use them; or make a new lock with `paddock template lock AGENT`, and compare",
        )
    archive = kept(wanted, sha256, cache)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        unfinished = Path(folder) / archive.name
        _download(wanted, url, unfinished, archive)
        if not _has_hash(unfinished, sha256):
            raise PaddockError(f"the sources of {wanted.name} {wanted.version} do not have the expected content")
        unfinished.replace(archive)
    return archive


def unpack(archive: Path, folders: Sequence[str], target: Path) -> None:
    """Copy folders of a source archive, which has one top folder. A missing folder is an error."""
    with tarfile.open(archive) as tar:
        for folder in folders:
            members = [each for each in tar if PurePosixPath(each.name).parts[1:2] == (folder,)]
            if not members:
                raise PaddockError(f"{archive.name} has no folder {folder}")
            for member in members:
                _extract(tar, member, target)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Copy a file or folder without the folder around everything.

    Not with `TarFile.extract`: the Python of Debian 12 has no filters yet, which keep a member inside of the target.
    """
    name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
    path = target / name
    content = tar.extractfile(member) if member.isfile() else None
    if ".." in name.parts or not (member.isdir() or content):
        raise PaddockError(f"the sources have {member.name}, which is neither a file nor a folder inside of them")
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _offered(wanted: Distribution, index: str) -> tuple[str, str]:
    packages = tomllib.loads(index).get("packages", [])
    sources = next((each.get("sdist") for each in packages if each.get("name") == wanted.name), None)
    if not sources or "url" not in sources or "sha256" not in sources.get("hashes", {}):
        raise PaddockError(f"the package index has no sources of {wanted.name} {wanted.version}")
    return sources["url"], sources["hashes"]["sha256"]


def _download(wanted: Distribution, url: str, target: Path, archive: Path) -> None:
    """Download a file. Proxies and certificates come from the environment and this machine."""
    hint = (
        f"download {PurePosixPath(urlsplit(url).path).name} from your package index,"
        f" and copy it to {shlex.quote(str(archive))}"
    )
    what = f"the sources of {wanted.name} {wanted.version}"
    if urlsplit(url).scheme not in ("https", "http", "file"):
        raise PaddockError(f"{what} cannot be fetched from this package index", hint=hint)
    try:
        # The scheme is one of those above.
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer, target.open("wb") as file:  # noqa: S310
            shutil.copyfileobj(_Limited(answer), file)
    except urllib.error.HTTPError as error:
        raise PaddockError(f"{what} cannot be fetched: the package index answered {error.code}", hint=hint) from None
    except OSError as error:
        raise PaddockError(f"{what} cannot be fetched: {error}", hint=hint) from None


class _Limited:
    """A file that must not be larger than any source archive is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, _LARGEST

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"it is larger than {_LARGEST >> 20} MB")
        return data


def _has_hash(file: Path, sha256: str) -> bool:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == sha256
    except OSError:
        return False
