"""A sandbox with a stopped pet 500 and a running cattle 505 that mounts the pet's volume at /mem."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pvebox.cluster.fixture import default_fixture
from pvebox.server.background import KEY_HEADER
from sandbox.live.box import Box, running_box

PET, CATTLE = 500, 505
_GIB: Final = 1 << 30
_COMMON: Final = "arch: amd64\nfeatures: nesting=1\nmemory: 512\nostype: debian\nswap: 512\nunprivileged: 1\n"
_STATE: Final = {
    "config": {
        "500": f"{_COMMON}hostname: pet\nmp0: local-lvm:vm-500-disk-1,mp=/mem,backup=1,size=1G\n"
        "rootfs: local-lvm:vm-500-disk-0,size=2G\n",
        "505": f"{_COMMON}hostname: cattle\nmp0: local-lvm:vm-500-disk-1,mp=/mem,backup=1,size=1G\n"
        "rootfs: local-lvm:vm-505-disk-0,size=2G\n",
    },
    "volumes": {"vm-500-disk-0": 2 * _GIB, "vm-500-disk-1": _GIB, "vm-505-disk-0": 2 * _GIB},
    "running": ["505"],
}


@contextlib.contextmanager
def pet_and_cattle(directory: Path, *, mmp_wait: float | None) -> Iterator[Box]:
    """Run the sandbox while the block runs. The roots of both containers are linked clones of one template."""
    fixture = directory / "fixture.json"
    fixture.write_text(json.dumps({**default_fixture(), "state": _STATE}), encoding="utf-8")
    with running_box(directory, "--fixture", str(fixture), mmp_wait=mmp_wait) as box:
        token = "root@pam!sandbox"
        box.client.headers["Authorization"] = f"PVEAPIToken={token}={box.ready['tokens'][token]}"
        yield box


def console(box: Box, *argv: str) -> str:
    """Run a command as root on the node and return its output."""
    control = box.ready["control"]
    answer = box.client.post(f"{control['url']}/root", json={"argv": argv}, headers={KEY_HEADER: control["key"]})
    said = answer.json()
    assert said["code"] == 0, said
    return str(said["out"])


def inside(box: Box, vmid: int, script: str) -> str:
    """Run a script as root in a running container and return its output."""
    return console(box, "pct", "exec", str(vmid), "--", "sh", "-ec", script)


def start(box: Box, vmid: int) -> float:
    """Start a container and return how many seconds that took."""
    began = time.monotonic()
    assert box.task("POST", f"/nodes/pve/lxc/{vmid}/status/start") == "OK"
    return time.monotonic() - began


def stop(box: Box, vmid: int) -> None:
    assert box.task("POST", f"/nodes/pve/lxc/{vmid}/status/stop") == "OK"


def snapshot(box: Box, vmid: int, name: str) -> str:
    return box.task("POST", f"/nodes/pve/lxc/{vmid}/snapshot", snapname=name)


def roll_back(box: Box, vmid: int, name: str) -> str:
    return box.task("POST", f"/nodes/pve/lxc/{vmid}/snapshot/{name}/rollback")


def back_up(box: Box, vmid: int, mode: str) -> tuple[str, list[Path], list[str]]:
    """Back a container up; return the exit status, the new archives and the log."""
    dump = box.state / "files/pve/local/backup"
    known = set(dump.glob("*.tar"))
    upid = box.call("POST", "/nodes/pve/vzdump", vmid=str(vmid), storage="local", mode=mode, compress="0")
    status = str(box.ended(upid)["exitstatus"])
    log = [line["t"] for line in box.call("GET", f"/nodes/pve/tasks/{upid}/log", limit=0)]
    return status, sorted(set(dump.glob("*.tar")) - known), log


def restore(box: Box, vmid: int, archive: Path, **params: Any) -> None:
    volid = f"local:backup/{archive.name}"
    assert box.task("POST", "/nodes/pve/lxc", vmid=vmid, ostemplate=volid, restore=1, **params) == "OK"


def remove(box: Box, *vmids: int) -> None:
    for vmid in vmids:
        assert box.task("DELETE", f"/nodes/pve/lxc/{vmid}", force=1, purge=1) == "OK"


def crash(box: Box) -> None:
    """Cut the power of all nodes."""
    command = [sys.executable, "-m", "pvebox", "fault", "--state", str(box.state), "crash", "0"]
    subprocess.run(command, check=True)


@contextlib.contextmanager
def writing(box: Box, vmid: int, script: str) -> Iterator[None]:
    """Repeat a script in a container while the block runs."""
    loop = f"while [ ! -e /run/enough ]; do {script}; done"
    inside(box, vmid, f"rm -f /run/enough; sh -c '{loop}' >/dev/null 2>&1 & sleep 0.3")
    try:
        yield
    finally:
        inside(box, vmid, "touch /run/enough")
