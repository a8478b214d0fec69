"""The config files of a cluster's containers, and the locks on them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import config as ct
from .config import CtConfig
from .errors import OperationError
from .mountpoint import drop_used_from_unused

LOCK_TIMEOUT: Final = 10.0


class Guests:
    """Containers by VMID: where each is, what its config says."""

    def __init__(self, directory: Path, nodes: tuple[str, ...]) -> None:
        self._directory = directory
        self._texts: dict[int, tuple[str, str]] = {}
        self._locks: dict[int, threading.RLock] = {}
        self._guard = threading.Lock()
        # Shortened by tests: Proxmox waits ten seconds for a config's lock.
        self.lock_timeout = LOCK_TIMEOUT
        for node in nodes:
            (self._folder(node)).mkdir(parents=True, exist_ok=True)
            for file in self._folder(node).glob("*.conf"):
                self._texts[int(file.stem)] = (node, file.read_text(encoding="utf-8"))

    def vmids(self, node: str | None = None) -> list[int]:
        """The containers of a node, or all, by number."""
        with self._guard:
            return sorted(vmid for vmid, (where, _) in self._texts.items() if node in (None, where))

    def exists(self, vmid: int) -> bool:
        """Whether any node has such a container."""
        return vmid in self._texts

    def node_of(self, vmid: int) -> str | None:
        """The node a container is on."""
        found = self._texts.get(vmid)
        return found[0] if found else None

    def load(self, vmid: int, node: str) -> CtConfig:
        """The config of a container that is on the node."""
        return ct.parse(self.text(vmid, node))

    def text(self, vmid: int, node: str) -> str:
        """The config file's text."""
        found = self._texts.get(vmid)
        if found is None or found[0] != node:
            raise OperationError(f"Configuration file 'nodes/{node}/lxc/{vmid}.conf' does not exist")
        return found[1]

    def save(self, vmid: int, node: str, config: CtConfig) -> None:
        """Write a config; volumes that are mounted again stop being unused."""
        drop_used_from_unused(config.options)
        self.put(vmid, node, ct.write(config))
        config.digest = ct.digest_of(self._texts[vmid][1])

    def reserve(self, vmid: int, node: str, config: CtConfig) -> None:
        """Write the config of a new container, unless somebody was faster."""
        with self._guard:
            taken = self._texts.get(vmid)
            if taken is not None:
                raise OperationError(f"CT {vmid} already exists on node '{taken[0]}'")
            self._write(vmid, node, ct.write(config))

    def put(self, vmid: int, node: str, text: str) -> None:
        """Write a config file as it is given."""
        with self._guard:
            self._write(vmid, node, text)

    def _write(self, vmid: int, node: str, text: str) -> None:
        file = self._folder(node) / f"{vmid}.conf"
        temporary = file.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
        self._texts[vmid] = (node, text)

    def remove(self, vmid: int) -> None:
        """Delete a config file."""
        with self._guard:
            found = self._texts.pop(vmid, None)
            if found:
                (self._folder(found[0]) / f"{vmid}.conf").unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self, vmid: int) -> Iterator[None]:
        """Hold a config's lock, or fail as Proxmox does when somebody else holds it too long."""
        with self._guard:
            lock = self._locks.setdefault(vmid, threading.RLock())
        if not lock.acquire(timeout=self.lock_timeout):
            raise OperationError(f"can't lock file '/run/lock/lxc/pve-config-{vmid}.lock' - got timeout")
        try:
            yield
        finally:
            lock.release()

    def _folder(self, node: str) -> Path:
        return self._directory / "nodes" / node / "lxc"
