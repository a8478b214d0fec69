"""A version of Hermes that starts, migrates its databases, and then answers no prompt."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Final

from paddock.runtimes.codetree import uv

GOOD: Final = "0.19.0"
BROKEN: Final = "0.19.1"
_SERVER: Final = "gateway/platforms/api_server.py"


def broken_wheel(folder: Path) -> Path:
    """Build a wheel of Hermes whose API server fails with each prompt."""
    packages, wheel = folder / "packages", folder / f"hermes_agent-{BROKEN}-py3-none-any.whl"
    if not packages.exists():
        uv("fetching Hermes", "pip", "install", "--no-deps", "--target", str(packages), f"hermes-agent=={GOOD}")
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(each for each in packages.rglob("*") if each.is_file()):
            name = str(path.relative_to(packages)).replace(f"hermes_agent-{GOOD}.dist-info", _INFO)
            if not name.startswith(("bin/", ".lock")):
                archive.writestr(name, _changed(name, path.read_bytes()))
    return wheel


_INFO: Final = f"hermes_agent-{BROKEN}.dist-info"


def _changed(name: str, content: bytes) -> bytes:
    if name == f"{_INFO}/METADATA":
        return content.replace(f"\nVersion: {GOOD}\n".encode(), f"\nVersion: {BROKEN}\n".encode(), 1)
    if name == f"{_INFO}/RECORD":
        return content.replace(f"hermes_agent-{GOOD}.dist-info".encode(), _INFO.encode())
    if name == _SERVER:
        changed, count = re.subn(
            rb"limited = self\._concurrency_limited_response\(\)", b'raise RuntimeError("broken on purpose")', content
        )
        assert count >= 2, "the API server of Hermes has changed"
        return changed
    return content
