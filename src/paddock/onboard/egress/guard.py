"""Keep the table of one agent: load it, tell systemd, and load it again when a name, a network or the table changed.

Runs on the machine as root, before the agent starts and as long as it runs. If the table cannot be loaded, this program
ends with an error, and systemd does not start the agent. The table stays when this program ends.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from paddock.onboard.egress.ruleset import ruleset
from paddock.onboard.egress.storage import disks, mounted, reachable
from paddock.onboard.egress.surroundings import Names, connected, is_address, may_be_named, resolvers

# The second file has the servers behind systemd-resolved; some engines give it to containers.
RESOLVERS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
# What is mounted, and what may be mounted while the agent runs.
FILESYSTEMS = ("/proc/self/mounts", "/etc/fstab")
RBD, NVME = "bus/rbd/devices/*/config_info", "class/nvme/nvme*/address"
SECONDS = 10  # between two looks at the machine
ROUNDS = 6  # looks between two questions for the same name


class Guard:
    """The configuration of the table, and what was loaded last."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.table = configuration["table"]
        self.user = configuration["user"]
        self.internet = configuration["internet"]
        self.allowed = [(host, port) for host, port in configuration["allowed"]]
        self.denied = configuration["denied"]
        self.asks_for_names = configuration["names"]
        self.names = Names()
        self.unknown: set[str] = set()
        self.loaded = ""

    def ask(self, only: set[str] | None = None) -> None:
        """Resolve all names of the file, or only some, and tell when one cannot be resolved."""
        wanted = {host for host, _ in self.allowed if not is_address(host)}
        wanted |= {host for host in self.denied if not is_address(host)}
        wanted |= {host for host, _ in stored() if not is_address(host)}
        self.names.ask(wanted if only is None else wanted & only)
        unknown = {name for name in wanted if not self.names.addresses(name)}
        for name in sorted(unknown - self.unknown):
            print(f"paddock: cannot resolve {name}", flush=True)
        self.unknown = unknown

    def keep(self) -> None:
        """Load the table if it changed, or if somebody removed it."""
        text = self.text()
        if text != self.loaded or not self.exists():
            subprocess.run(["nft", "--file", "-"], input=text.encode(), check=True)
            self.loaded = text

    def exists(self) -> bool:
        command = ["nft", "list", "table", "inet", self.table]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def text(self) -> str:
        denied = [address for host in self.denied for address in self.addresses(host)]
        allowed: list[tuple[str, int | None]] = []
        if self.asks_for_names:
            allowed += [(address, 53) for path in RESOLVERS for address in resolvers(read(path))]
        for host, port in self.allowed:
            for address in self.addresses(host):
                if is_address(host) or (may_be_named(host, address) and address not in denied):
                    allowed.append((address, port))
        storage = [
            each
            for host, ceph in stored()
            for address in self.addresses(host)
            for each in reachable(address, ceph=ceph)
        ]
        if not self.internet:
            return ruleset(self.table, self.uid(), allowed, None, storage)
        routes = [read(f"/proc/net/{name}") for name in ("route", "ipv6_route")]
        return ruleset(self.table, self.uid(), allowed, [*connected(*routes), *denied], storage)

    def addresses(self, host: str) -> list[str]:
        return [host] if is_address(host) else self.names.addresses(host)

    def uid(self) -> int:
        uid = self.user if isinstance(self.user, int) else pwd.getpwnam(self.user).pw_uid
        if uid == 0:
            sys.exit("paddock: the connections of root cannot be limited")
        return int(uid)


def stored() -> list[tuple[str, bool]]:
    """Return the servers of the machine's network filesystems and disks, and whether each is one of Ceph."""
    found = [each for path in FILESYSTEMS for each in mounted(read(path))]
    described = [[read(str(path)) for path in Path("/sys").glob(pattern)] for pattern in (RBD, NVME)]
    return sorted({*found, *disks(*described)})


def read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""  # a machine without IPv6, or without systemd-resolved


def main() -> None:
    """Arguments: the folder of the current bundle."""
    folder = Path(sys.argv[1]).resolve()
    guard = Guard(json.loads((folder / "egress.json").read_text()))
    try:
        watch(guard, folder.parent / "namespaces")
    except (OSError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"paddock: the rules of egress cannot be loaded: {error}")


def watch(guard: Guard, namespaces: Path) -> None:
    """Keep the table for ever. ``namespaces`` is a file for containers."""
    wake = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: wake.set())
    guard.ask()
    guard.keep()
    record(namespaces)
    ready()
    rounds = 0
    while True:
        wake.wait(SECONDS)
        wake.clear()
        rounds += 1
        guard.ask(None if rounds % ROUNDS == 0 else guard.unknown)
        guard.keep()


def record(path: Path) -> None:
    """Write down the network and the users that the table is for. A container compares them with its own."""
    new = path.with_suffix(".new")
    new.write_text(f"{Path('/proc/self/ns/net').readlink()}\n{read('/proc/self/uid_map')}")
    new.chmod(0o644)
    new.rename(path)


def ready() -> None:
    """Tell systemd that the table is loaded."""
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.connect("\0" + address[1:] if address.startswith("@") else address)
        systemd.send(b"READY=1\nSTATUS=the table is loaded")
