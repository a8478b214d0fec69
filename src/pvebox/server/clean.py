"""Remove everything a sandbox created on the host, whether or not its server is still running."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from pvebox.api.errors import SandboxError
from pvebox.runtime.lxc import bridge
from pvebox.runtime.lxc.filesystems import thaw
from pvebox.runtime.lxc.mounts import mounted_below, unmount
from pvebox.runtime.lxc.names import Names
from pvebox.server import statedir
from pvebox.server.process import attempt, is_alive, terminate_by_pid_file


def clean(state: Path) -> None:
    """Remove the containers, mounts and network of a sandbox, then its state directory."""
    if statedir.is_sandbox(state):
        stop_sandbox(state)
        shutil.rmtree(state)


def stop_sandbox(state: Path) -> None:
    """Stop a sandbox's server and containers, and remove its mounts and network. Volumes and configs stay."""
    statedir.require_own(state)
    _end_server(state)
    if os.geteuid() == 0 and (state / "run" / "subnet").exists():
        names = Names(state)
        _stop_containers(names)
        for point in (*mounted_below(names.run), *mounted_below(state)):
            thaw(point)
            unmount(point)
        bridge.down(names)
        _remove_links(names)
        shutil.rmtree(names.lxc_path, ignore_errors=True)
        _remove_empty(names.run)


def _end_server(state: Path) -> None:
    note = state / "server.pid"
    terminate_by_pid_file(note)
    for _ in range(200):
        if not is_alive(note):
            return
        time.sleep(0.05)
    raise SandboxError(f"The sandbox server in {state} did not stop.")


def _stop_containers(names: Names) -> None:
    prefix = names.container(0).removesuffix("0")
    for config in names.lxc_path.glob(f"{prefix}*/config"):
        attempt("lxc-stop", "-P", str(names.lxc_path), "-n", config.parent.name, "--kill")
    top = Path("/sys/fs/cgroup")
    for _ in range(100):
        if not [*top.glob(f"*/lxc.*.{prefix}*"), *top.glob(f"lxc.*.{prefix}*")]:
            return
        time.sleep(0.05)


def _remove_empty(top: Path) -> None:
    """Remove empty mount points. Never delete a file: it would belong to a volume that is still mounted."""
    for path in sorted(top.rglob("*"), reverse=True):
        path.rmdir()
    for path in (top, top.parent):
        with contextlib.suppress(OSError):
            path.rmdir()


def _remove_links(names: Names) -> None:
    for link in Path("/sys/class/net").glob(f"p{names.short_id}*"):
        attempt("ip", "link", "delete", link.name)
