"""Download templates and verify their checksums."""

from __future__ import annotations

import hashlib
import ssl
import urllib.request
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task

_CHUNK: Final = 1 << 20


def checksum_of(file: Path, algorithm: str) -> str:
    """Return the checksum of a file in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def fetch(url: str, target: Path, checksum: tuple[str, str] | None, *, verify: bool, task: Task) -> None:
    """Download a file unless it exists with the right checksum. Raise and keep nothing if the checksum differs."""
    if target.exists():
        if checksum is None:
            raise OperationError(f"refusing to override existing file '{target.name}'")
        task.say("calculating checksum of existing file...")
        got = checksum_of(target, checksum[0])
        if got != checksum[1].lower():
            raise OperationError(f"mismatch (got '{got}' != expect '{checksum[1]}'), aborting")
        task.say("OK, got correct file already, no need to download")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.download")
    task.say(f"downloading {url} to {target.name}")
    try:
        _copy(url, temporary, verify=verify, task=task)
        if checksum is not None:
            task.say("calculating checksum...")
            got = checksum_of(temporary, checksum[0])
            if got != checksum[1].lower():
                raise OperationError(f"checksum mismatch: got '{got}' != expect '{checksum[1]}'")
            task.say("OK, checksum verified")
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    task.say(f"download of '{url}' to '{target.name}' finished")


def _copy(url: str, target: Path, *, verify: bool, task: Task) -> None:
    trust = ssl.create_default_context()
    if not verify:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    try:
        # The parameter schema allows only http and https.
        with (
            urllib.request.urlopen(url, timeout=30, context=trust) as source,  # noqa: S310
            target.open("wb") as out,
        ):
            while chunk := source.read(_CHUNK):
                task.check_aborted()
                out.write(chunk)
    except OSError as error:
        raise OperationError(f"download failed: {getattr(error, 'reason', None) or error}") from None
