"""What the runs of Paddock and a node have on this machine, counted, so that a leak is found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from live.manual import api_client
from live.node import Node
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.notes import Claim
from paddock.places.proxmox.node.observation import LxcContainer
from pvebox.runtime.lxc.names import Names
from sandbox.live.box import host_things

Inventory = Mapping[str, Sequence[str]]

# Paddock keeps these on purpose, and removes them itself: name, seconds that they stay at most.
KEPT_SECONDS: Final = {"known_hosts": 3600, "alive": 24 * 3600}
MOST_JOURNALS: Final = 500


def inventory(node: Node) -> Inventory:
    """List what exists now: on the node, in the folders of the runs, and among the processes of this machine."""
    environment, state = node.stage.environment, node.stage.folder / "sandbox"
    marks = (str(state), Names(state).short_id)
    host = {
        kind: sorted(each for each in things if any(mark in each for mark in marks))
        for kind, things in host_things().items()
    }
    local = Path(environment["XDG_STATE_HOME"]) / "paddock"
    return {
        **host,
        **_on_the_node(api_client(node)),
        "volumes": _files(state / "volumes"),
        "temporary files": sorted(map(str, Path(environment["TMPDIR"]).rglob("*"))),
        "sockets": [each for each in _files(node.stage.folder) if Path(each).is_socket()],
        "run processes": sorted(_processes(f"XDG_STATE_HOME={environment['XDG_STATE_HOME']}")),
        "locks": _files(local / "locks"),
        "expired signs of life": _older(local / "alive", KEPT_SECONDS["alive"]),
        "unused host keys": _unused_host_keys(environment),
        "surplus journals": sorted(_files(local / "runs"))[MOST_JOURNALS:],
    }


def leaks(before: Inventory, after: Inventory) -> list[str]:
    """Return one line for each kind of which there is more than before."""
    found = []
    for kind, things in after.items():
        more = len(things) - len(before.get(kind, ()))
        if more > 0:
            names = [each for each in things if each not in before.get(kind, ())] or things
            found.append(f"{more} more {kind}: {', '.join(names[:3])}")
    return found


def leaks_now(node: Node, before: Inventory, seconds: float = 15) -> list[str]:
    """Return the leaks once the kernel and the node had time to finish, or at once if there are none."""
    end = time.monotonic() + seconds
    while (found := leaks(before, inventory(node))) and time.monotonic() < end:
        time.sleep(0.5)
    return found


def _on_the_node(api: Client) -> dict[str, list[str]]:
    """Return the containers of the node, and those that a run or a task has not finished with."""
    path = f"/nodes/{api.node}/lxc"
    rows = sorted(api.get(path), key=lambda row: int(row["vmid"]))
    found = [LxcContainer(int(row["vmid"]), row["status"], api.get(f"{path}/{row['vmid']}/config")) for row in rows]
    return {
        "containers": [f"{each.vmid} {each.name}" for each in found],
        "locked containers": [each.name for each in found if each.lock],
        "claims": [each.name for each in found if Claim.from_notes(each.notes)],
        "unfinished containers": [each.name for each in found if (mark := each.noted_mark) and mark.new],
        "detached volumes": [f"{each.name} {key}" for each in found for key in each.config if key.startswith("unused")],
    }


def _files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if not path.is_dir())


def _older(folder: Path, seconds: float) -> list[str]:
    oldest = time.time() - seconds - 60
    return [each for each in _files(folder) if Path(each).lstat().st_mtime < oldest]


def _unused_host_keys(environment: Mapping[str, str]) -> list[str]:
    """Return the old files of host keys. A cache that other programs use too is not counted."""
    cache = environment.get("XDG_CACHE_HOME")
    return _older(Path(cache) / "paddock/known_hosts", KEPT_SECONDS["known_hosts"]) if cache else []


def _processes(variable: str) -> Iterator[str]:
    """Yield the processes that have a variable in their environment, and so were started by a run."""
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (directory / "environ").read_bytes().split(b"\0")
            if variable.encode() in environment and int(directory.name) != os.getpid():
                yield f"{directory.name} {(directory / 'comm').read_text().strip()}"
