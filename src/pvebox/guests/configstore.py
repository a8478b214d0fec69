"""The config files of the cluster's containers, and their locks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.guests import config as ct
from pvebox.guests.config import CtConfig
from pvebox.guests.mountpoint import drop_used_from_unused

LOCK_TIMEOUT: Final = 10.0


class ConfigStore:
    """Stores the config file of every container, by VMID and node."""

    def __init__(self, directory: Path, nodes: tuple[str, ...]) -> None:
        self._directory = directory
        self._texts: dict[int, tuple[str, str]] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()
        # Proxmox waits ten seconds for the lock of a config; tests shorten the wait.
        self.lock_timeout = LOCK_TIMEOUT
        # Called with the path of a file before it is written. Raises if the cluster's filesystem is read-only.
        self.require_writable: Callable[[str], None] = lambda path: None
        for node in nodes:
            (self._folder(node)).mkdir(parents=True, exist_ok=True)
            for file in self._folder(node).glob("*.conf"):
                self._texts[int(file.stem)] = (node, file.read_text(encoding="utf-8"))

    def vmids(self, node: str | None = None) -> list[int]:
        """Return the sorted VMIDs of the containers on a node, or of all."""
        with self._guard:
            return sorted(vmid for vmid, (where, _) in self._texts.items() if node in (None, where))

    def exists(self, vmid: int) -> bool:
        """Return whether a container with this VMID exists on any node."""
        return vmid in self._texts

    def node_of(self, vmid: int) -> str | None:
        """Return the node of a container, or None."""
        found = self._texts.get(vmid)
        return found[0] if found else None

    def load(self, vmid: int, node: str) -> CtConfig:
        """Parse the config of a container. Raise if the container is not on the node."""
        return ct.parse(self.text(vmid, node))

    def text(self, vmid: int, node: str) -> str:
        """Return the text of a container's config file. Raise if the container is not on the node."""
        found = self._texts.get(vmid)
        if found is None or found[0] != node:
            raise OperationError(f"Configuration file 'nodes/{node}/lxc/{vmid}.conf' does not exist")
        return found[1]

    def save(self, vmid: int, node: str, config: CtConfig) -> None:
        """Write a config, without the `unused` entries of volumes that it mounts."""
        drop_used_from_unused(config.options)
        self.put(vmid, node, ct.write(config))
        config.digest = ct.digest_of(self._texts[vmid][1])

    def reserve(self, vmid: int, node: str, config: CtConfig) -> None:
        """Write the config of a new container. Raise if its VMID is taken."""
        with self._guard:
            taken = self._texts.get(vmid)
            if taken is not None:
                raise OperationError(f"CT {vmid} already exists on node '{taken[0]}'")
            self._write(vmid, node, ct.write(config))

    def put(self, vmid: int, node: str, text: str) -> None:
        """Write the text of a config file unchanged."""
        with self._guard:
            self._write(vmid, node, text)

    def _write(self, vmid: int, node: str, text: str) -> None:
        self.require_writable(f"nodes/{node}/lxc/{vmid}.conf")
        file = self._folder(node) / f"{vmid}.conf"
        temporary = file.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
        self._texts[vmid] = (node, text)

    def move(self, vmid: int, node: str) -> None:
        """Move a config file to another node."""
        with self._guard:
            old, text = self._texts[vmid]
            self._write(vmid, node, text)
            (self._folder(old) / f"{vmid}.conf").unlink(missing_ok=True)

    def remove(self, vmid: int) -> None:
        """Delete a config file."""
        with self._guard:
            found = self._texts.get(vmid)
            if found:
                self.require_writable(f"nodes/{found[0]}/lxc/{vmid}.conf")
                del self._texts[vmid]
                (self._folder(found[0]) / f"{vmid}.conf").unlink(missing_ok=True)

    @contextlib.contextmanager
    def changing(self, vmid: int, node: str, say: Callable[[str], None] | None = None) -> Iterator[CtConfig]:
        """Hold the lock of a config, and save the changes of the block unless it raises."""
        with self.lock(vmid, say):
            config = self.load(vmid, node)
            yield config
            self.save(vmid, node, config)

    def unlock(self, vmid: int, node: str) -> None:
        """Remove the option `lock` from a config."""
        with self.changing(vmid, node) as config:
            config.options.pop("lock", None)

    def lock(self, vmid: int, say: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Hold the lock of a config. Raise Proxmox's timeout error if the lock is not released in time."""
        return self._hold(f"/run/lock/lxc/pve-config-{vmid}.lock", say)

    def migration_lock(self, vmid: int, say: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Hold the lock that keeps migration, rollback and deletion of snapshots apart."""
        return self._hold(f"/var/lock/pve-manager/pve-migrate-{vmid}", say)

    @contextlib.contextmanager
    def _hold(self, file: str, say: Callable[[str], None] | None) -> Iterator[None]:
        """Hold a lock, and log it if another holder makes this one wait."""
        with self._guard:
            lock = self._locks.setdefault(file, threading.RLock())
        if not lock.acquire(blocking=False):
            held = lock.acquire(timeout=self.lock_timeout)
            if say is not None:
                say("trying to acquire lock... OK" if held else "trying to acquire lock...")
            if not held:
                raise OperationError(f"can't lock file '{file}' - got timeout")
        try:
            yield
        finally:
            lock.release()

    def _folder(self, node: str) -> Path:
        return self._directory / "nodes" / node / "lxc"
