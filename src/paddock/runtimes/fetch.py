"""Files of the internet that are known by their hash."""

from __future__ import annotations

import hashlib
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from paddock.errors import PaddockError


def fetch(url: str, sha512: str, target: Path) -> None:
    """Write a file of the internet to the target, if it is the one with that hash."""
    digest = hashlib.sha512()
    try:
        # The system's certificates, where a company's proxy is trusted.
        with (
            urllib.request.urlopen(url, timeout=60, context=ssl.create_default_context()) as response,  # noqa: S310
            target.open("wb") as file,
        ):
            while block := response.read(1 << 20):
                digest.update(block)
                file.write(block)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise PaddockError(f"cannot fetch {url}: {getattr(error, 'reason', error)}") from None
    if digest.hexdigest() != sha512:
        raise PaddockError(f"{url} is not what it was: its SHA-512 is {digest.hexdigest()}", hint="do not use it")
