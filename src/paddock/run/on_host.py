"""Run Paddock on another host, with the file that is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from paddock.errors import BadInput, PaddockError
from paddock.guests import Guest
from paddock.guests.ssh import SshGuest
from paddock.places.host import guest_of
from paddock.spec.load import Loaded
from paddock.visible import visible

_DESTINATION: Final = re.compile(r"([a-z_][a-z0-9_.-]*)@([A-Za-z0-9:][A-Za-z0-9.:-]*)")
_NO_PADDOCK, _NO_FILE = 41, 42
# Programs that an account installs for itself are often missing from the PATH that ssh gives.
_PATH: Final = 'PATH="$HOME/.local/bin:$PATH"'
_EXPECT: Final = f"""{_PATH}
command -v paddock >/dev/null || exit {_NO_PADDOCK}
for file; do [ -r "$file" ] || exit {_NO_FILE}; done
"""
_RUN: Final = f'{_PATH}; cd "$1" && shift && exec paddock "$@"'


def host_of(name: str, loaded: Loaded) -> Guest:
    """Return a channel to a host: a place of the file, or user@host."""
    place = loaded.spec.places.get(name)
    if place is not None and place.host is not None and place.host.address is not None:
        key = loaded.folder / place.host.key.expanduser() if place.host.key else None
        return guest_of(name, place.host, key)
    if place is not None:
        raise BadInput(f"--on: {name} is not another host", hint="name a place with `host: {address: …}`, or user@host")
    if found := _DESTINATION.fullmatch(name):
        return SshGuest(found[2], found[2], found[1])
    raise BadInput(f"--on: there is no place {name} in {loaded.path.name}", hint="name a host place, or user@host")


def paddock_on(guest: Guest, folder: str, files: Sequence[str], words: Sequence[str]) -> int:
    """Run `paddock` in a folder of a host, print what it prints, and return its exit code."""
    result = guest.run(["sh", "-c", _EXPECT, "sh", *files])
    if result.code == _NO_PADDOCK:
        raise PaddockError(f"{guest.name} has no command paddock", hint="install Paddock there, for the same account")
    if result.code == _NO_FILE:
        raise PaddockError(
            f"{guest.name} has no {' and '.join(files)}",
            hint="copy the folder of the file there, with its keys; --folder names it if it has another path there",
        )
    argv = ["sh", "-c", _RUN, "sh", folder, *words]
    return guest.stream(argv, lambda line: print(visible(line)), lambda line: print(visible(line), file=sys.stderr))


def paths_there(loaded: Loaded, files: Sequence[Path], folder: str | None) -> tuple[str, list[str]]:
    """Return the folder and the files on a host: the same paths as here, unless the folder has another one there."""
    if folder is None:
        return str(loaded.folder), [str(file.absolute()) for file in files]
    there = PurePosixPath(folder)
    if not there.is_absolute():
        raise BadInput("--folder: write an absolute path on that host")
    try:
        return str(there), [str(there / file.absolute().relative_to(loaded.folder)) for file in files]
    except ValueError:
        raise BadInput(f"--folder: all files must be below {loaded.folder}") from None
