"""A new Debian 12 with systemd in an LXC container, beside the node: nothing of Paddock or of a developer is in it.

It is privileged and may use loop devices, so that a sandbox with containers of its own can run in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from live.node import Node, wait_for
from sshd import base_archive

_CONFIGURATION: Final = """\
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.uts.name = clean
lxc.rootfs.path = dir:{root}
lxc.apparmor.profile = unconfined
lxc.cap.drop =
lxc.cgroup.devices.allow = a
lxc.cgroup2.devices.allow = a
lxc.mount.auto =
lxc.mount.auto = proc:rw sys:rw cgroup:rw:force
lxc.net.0.type = veth
lxc.net.0.link = {bridge}
lxc.net.0.name = eth0
lxc.net.0.flags = up
"""
_NETWORK: Final = "auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet dhcp\n"
# Settings of this machine that say where packages come from, and whom to trust.
_SETTINGS: Final = (
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pip.conf",
    "/root/.config/pip/pip.conf",
)
_DEVICES: Final = """
[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237
for i in $(seq 0 63); do [ -e /dev/loop$i ] || mknod /dev/loop$i b 7 $i; done
"""


@dataclass(frozen=True)
class CleanDebian:
    """A running container."""

    folder: Path
    name: str

    @property
    def root(self) -> Path:
        return self.folder / self.name / "rootfs"

    def run(self, script: str) -> str:
        """Run a script as root, as after a login, and return what it prints."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/root/.local/bin"
        variables = [f"PATH={path}", "HOME=/root", "USER=root", "LANG=C.UTF-8"]
        words = ["--clear-env", *(word for each in variables for word in ("-v", each))]
        command = ["lxc-attach", "-P", str(self.folder), "-n", self.name, *words, "--", "sh", "-ec", f"cd\n{script}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@contextmanager
def clean_debian(node: Node, folder: Path) -> Iterator[CleanDebian]:
    """Start the container on the bridge of the node, and remove it when the block ends."""
    made = CleanDebian(folder, f"clean{os.getpid()}")
    made.root.mkdir(parents=True)
    subprocess.run(["tar", "--zstd", "-xf", str(base_archive()), "-C", str(made.root)], check=True, timeout=300)
    for name in _SETTINGS:
        if Path(name).is_file():
            target = made.root / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(name, target)
    (made.root / "etc/network/interfaces").write_text(_NETWORK)
    shown = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    (bridge,) = re.findall(rf"^\d+: (\S+) +inet {re.escape(node.gateway)}/", shown, re.MULTILINE)
    (folder / made.name / "config").write_text(_CONFIGURATION.format(root=made.root, bridge=bridge))
    subprocess.run(["lxc-start", "-P", str(folder), "-n", made.name], check=True, timeout=60)
    try:
        wait_for(lambda: _is_online(made), seconds=60)
        made.run(_DEVICES)
        yield made
    finally:
        subprocess.run(["lxc-stop", "-k", "-P", str(folder), "-n", made.name], check=False, timeout=60)
        shutil.rmtree(folder / made.name)


def _is_online(made: CleanDebian) -> bool:
    with suppress(AssertionError):
        return "default" in made.run("ip route")
    return False
