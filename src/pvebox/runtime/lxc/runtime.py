"""The runtime with real containers: images, containers and a bridge of one state directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pvebox.runtime.confined import parts_of, path_below
from pvebox.runtime.lxc import packing
from pvebox.runtime.lxc.bridge import Bridge, choose_network
from pvebox.runtime.lxc.containers import LxcContainers
from pvebox.runtime.lxc.images import Images
from pvebox.runtime.lxc.names import Names


class LxcRuntime:
    """Runs real LXC containers."""

    def __init__(
        self, state: Path, bridges: Mapping[str, tuple[str, ...]], subnet: str | None, mmp_wait: float | None = None
    ) -> None:
        self.names = Names(state)
        self.sharing = self.names.sharing
        self._bridges = dict(bridges)
        self._hooks: list[Callable[[int], None]] = []
        self.bridge = Bridge(self.names, choose_network(self.names, subnet))
        self.names.make_run()
        self.names.lxc_path.mkdir(exist_ok=True)
        self.volumes = Images(self.names, mmp_wait)
        self.containers = LxcContainers(self.names, self.volumes, self.bridge.gateway, self._call_stop_hooks)

    def bridge_exists(self, node: str, bridge: str) -> bool:
        """Return whether the node has a bridge of this name. On the host all of them are the same bridge."""
        return bridge in self._bridges.get(node, ())

    def host_path(self, node: str, path: str) -> Path:
        """Return the path in the sandbox's directory that stands for a path of the node."""
        return path_below(self.names.hosts, node, *parts_of(path))

    def on_stop(self, hook: Callable[[int], None]) -> None:
        """Register a hook that is called after a container has stopped for any reason."""
        self._hooks.append(hook)

    def files(self, node: str, storage: str) -> dict[str, tuple[int, int]]:
        """Return the files of a directory storage: name to size and time."""
        root = self.names.files(node, storage)
        return {
            str(file.relative_to(root)): (file.stat().st_size, int(file.stat().st_mtime))
            for file in sorted(root.rglob("*"))
            if file.is_file()
        }

    def read_text(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of a small file, or None."""
        try:
            return self.names.file(node, storage, name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def write_text(self, node: str, storage: str, name: str, text: str) -> None:
        """Write a small file."""
        path = self.names.file(node, storage, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def file(self, node: str, storage: str, name: str) -> Path | None:
        """Return the path of a storage's file."""
        return self.names.file(node, storage, name)

    def note_file(self, node: str, storage: str, name: str, size: int, config_text: str = "") -> None:
        """Do nothing: the file itself is the record."""

    def archived_config(self, node: str, storage: str, name: str) -> str | None:
        """Return the text of the config in a backup, or None."""
        return packing.config_in(self.names.file(node, storage, name))

    def remove_file(self, node: str, storage: str, name: str) -> None:
        """Remove a storage's file if it exists."""
        self.names.file(node, storage, name).unlink(missing_ok=True)

    def close(self) -> None:
        """Stop polling. Containers, mounts and the network stay."""
        self.containers.close()

    def _call_stop_hooks(self, vmid: int) -> None:
        for hook in self._hooks:
            hook(vmid)
