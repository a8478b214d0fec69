"""The list of the software that is lost with a container."""

from __future__ import annotations

import io
import tarfile
import time
from pathlib import Path

import pytest

from paddock.onboard.engine.containers import Container
from paddock.onboard.engine.look import _layer

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
cd {world}
case "$1 $2" in
    "diff paddock-home_bee") cat changes ;;
    "cp paddock-home_bee:/var/lib/apt/extended_states") {copy} ;;
    *) exit 1 ;;
esac
"""
CONTAINER = Container("paddock-home_bee", "c0ffee", "1234", 0, {})


def listed(world: Path, states: str | None, packages: str = "chromium", copy: str = "cat states.tar") -> list[str]:
    """Return what is listed in a world with this file of apt, and these packages in the agent's file."""
    (world / "current").mkdir()
    (world / "current/bundle.env").write_text(f'IMAGE="debian"\nPACKAGES="{packages}"\n')
    (world / "changes").write_text(CHANGES)
    with tarfile.open(world / "states.tar", "w") as tar:
        if states is not None:
            entry = tarfile.TarInfo("extended_states")
            entry.size = len(states)
            tar.addfile(entry, io.BytesIO(states.encode()))
    (world / "docker").write_text(ENGINE.format(world=world, copy=copy))
    (world / "docker").chmod(0o755)
    return _layer(f"{world}/docker", CONTAINER, str(world))


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


def test_a_hostile_file_of_apt_takes_no_time(tmp_path: Path) -> None:
    """The agent of a container may be root in it."""
    of_one_paragraph = "Package: jq\n" * 60_000
    begun = time.monotonic()
    assert "jq" in listed(tmp_path, of_one_paragraph)
    assert time.monotonic() - begun < 5


def test_a_file_of_apt_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    endless = "cat states.tar; head -c 1G /dev/zero && touch finished"
    assert listed(tmp_path, STATES, copy=endless) == ["jq", "libgone1", *ADDED]
    assert not (tmp_path / "finished").exists()
