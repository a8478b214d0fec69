"""The list of the software that is lost with a container."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from paddock.runtimes.sent import text

# chromium is a package of the file; the person added jq, pip added requests, and npm added two packages.
CHANGES = """\
C /var
C /var/lib/dpkg/info
A /var/lib/dpkg/info/chromium.list
A /var/lib/dpkg/info/chromium.md5sums
A /var/lib/dpkg/info/libx11-6:amd64.list
A /var/lib/dpkg/info/libx11-data.list
A /var/lib/dpkg/info/jq.list
A /var/lib/dpkg/info/libjq1:amd64.list
A /var/lib/dpkg/info/libgone1:amd64.list
C /var/lib/dpkg/info/base-files.list
A /usr/local/lib/python3.11/site-packages/requests-2.32.0.dist-info
A /usr/local/lib/python3.11/site-packages/requests-2.32.0.dist-info/REQUESTED
A /usr/local/lib/python3.11/site-packages/urllib3-2.2.0.dist-info
A /usr/local/lib/python3.11/site-packages/urllib3-2.2.0.dist-info/RECORD
A /home/bee/.local/lib/node_modules/left-pad
A /home/bee/.local/lib/node_modules/left-pad/index.js
A /home/bee/.local/lib/node_modules/@scope
A /home/bee/.local/lib/node_modules/@scope/tool
A /tmp/kept
"""
STATES = """\
Package: libx11-6
Architecture: amd64
Auto-Installed: 1

Package: libx11-data
Architecture: all
Auto-Installed: 1

Package: jq
Architecture: amd64
Auto-Installed: 0

Package: libjq1
Architecture: amd64
Auto-Installed: 1
"""
ENGINE = """#!/bin/sh
case "$1 $2" in
    "diff paddock-home_bee") cat "$WORLD/changes" ;;
    "cp paddock-home_bee:/var/lib/apt/extended_states") cat "$WORLD/states.tar" ;;
    *) exit 1 ;;
esac
"""


def listed(world: Path, states: str | None, packages: str = "chromium") -> list[str]:
    """Return what the library lists in a world with this file of apt, and these packages in the agent's file."""
    (world / "current").mkdir()
    (world / "current/bundle.env").write_text(f'IMAGE="debian"\nPACKAGES="{packages}"\n')
    (world / "changes").write_text(CHANGES)
    with tarfile.open(world / "states.tar", "w") as tar:
        if states is not None:
            entry = tarfile.TarInfo("extended_states")
            entry.size = len(states)
            tar.addfile(entry, io.BytesIO(states.encode()))
    (world / "docker").write_text(ENGINE)
    (world / "docker").chmod(0o755)
    script = f"set -eu; root={world}\n{text('image/layer.sh')}\nlayer {world}/docker paddock-home_bee"
    environment = {"PATH": os.environ["PATH"], "WORLD": str(world)}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


ADDED = ["requests", "left-pad", "@scope/tool"]


@pytest.mark.parametrize(
    ("states", "packages", "names"),
    [
        (STATES, "chromium", ["jq", "libgone1"]),
        (STATES, "chromium jq", ["libgone1"]),
        (STATES, "", ["chromium", "jq", "libgone1"]),
        (None, "chromium", ["libx11-6", "libx11-data", "jq", "libjq1", "libgone1"]),
    ],
    ids=["one-of-the-file", "all-of-the-file", "none-of-the-file", "no-apt"],
)
def test_only_what_somebody_added_is_listed(
    tmp_path: Path, states: str | None, packages: str, names: list[str]
) -> None:
    assert listed(tmp_path, states, packages) == [*names, *ADDED]
