"""A version of Hermes that starts, migrates its databases, and then answers no prompt."""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from paddock.runtimes.code.tree import uv

GOOD: Final = "0.19.0"
BROKEN: Final = "0.19.1"
_SERVER: Final = "gateway/platforms/api_server.py"


_INFO: Final = f"hermes_agent-{BROKEN}.dist-info"


def broken_wheel(folder: Path) -> Path:
    """Build a wheel of Hermes whose API server fails with each prompt."""
    packages, wheel = folder / "packages", folder / f"hermes_agent-{BROKEN}-py3-none-any.whl"
    uv("fetching Hermes", "pip", "install", "--no-deps", "--target", str(packages), f"hermes-agent=={GOOD}")
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(each for each in packages.rglob("*") if each.is_file()):
            name = str(path.relative_to(packages)).replace(f"hermes_agent-{GOOD}.dist-info", _INFO)
            if name.startswith(("bin/", ".lock")) or name == f"{_INFO}/RECORD":
                continue
            content = _changed(name, path.read_bytes())
            archive.writestr(name, content)
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        archive.writestr(f"{_INFO}/RECORD", "".join([*record, f"{_INFO}/RECORD,,\n"]))
    shutil.rmtree(packages)
    return wheel


def _changed(name: str, content: bytes) -> bytes:
    if name == f"{_INFO}/METADATA":
        return content.replace(f"\nVersion: {GOOD}\n".encode(), f"\nVersion: {BROKEN}\n".encode(), 1)
    if name == _SERVER:
        limit = rb"limited = self\._concurrency_limited_response\(\)"
        changed, count = re.subn(limit, b'raise RuntimeError("broken on purpose")', content)
        assert count >= 2, "the API server of Hermes has changed"
        return changed
    return content
