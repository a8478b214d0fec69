"""Mount the volumes of a container as one tree outside the container: its root, and its other mounts inside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pvebox.api.errors import OperationError
from pvebox.runtime.confined import descend, descriptor_path
from pvebox.runtime.contract import ContainerSpec, Mount, NotMountableError, VolumeRef
from pvebox.runtime.lxc.containerroot import ContainerRoot
from pvebox.runtime.lxc.images import Images
from pvebox.runtime.lxc.mounts import mounted_below, unmount
from pvebox.runtime.lxc.names import Names
from pvebox.server.process import attempt


class Trees:
    """The mounted trees of containers. The volumes of a tree stay mounted until their holder releases them."""

    def __init__(self, names: Names, images: Images) -> None:
        self._names = names
        self._images = images

    @contextlib.contextmanager
    def mounted(self, spec: ContainerSpec, holder: str) -> Iterator[Path]:
        """Mount a container's tree at the mount point of its root volume while the block runs."""
        try:
            yield self._mount(spec, holder)
        finally:
            root = next((m.source for m in spec.mounts if m.key == "rootfs"), None)
            if isinstance(root, VolumeRef):
                top = self._names.mount_point(root)
                for point in mounted_below(top):
                    if point != top:
                        attempt("umount", str(point))
            self._images.release(holder, linger=True)

    @contextlib.contextmanager
    def staged(self, spec: ContainerSpec, holder: str) -> Iterator[Path]:
        """Mount the volumes of a container as a separate tree while the block runs. The container may be running."""
        stage = self._names.mounts / ".backup" / str(spec.vmid)
        stage.mkdir(parents=True, exist_ok=True)
        try:
            for mount in spec.mounts:
                if isinstance(mount.source, VolumeRef):
                    source = str(self._images.hold(mount.source, holder))
                    if mount.key == "rootfs":
                        bind(source, str(stage))
                        # Otherwise the mounts below would propagate into a running container.
                        attempt("mount", "--make-private", str(stage))
                    else:
                        with ContainerRoot(stage).directory(mount.path) as inside:
                            bind(source, descriptor_path(inside))
            yield stage
        finally:
            for point in mounted_below(stage):
                unmount(point)
            stage.rmdir()
            self._images.release(holder)

    @contextlib.contextmanager
    def source(self, mount: Mount, holder: str) -> Iterator[tuple[str, Path]]:
        """Yield the source of a mount twice: as text for mount programs, and as a path.

        A directory of the node is opened without following symlinks, because containers that mount it can create them.
        """
        if isinstance(mount.source, VolumeRef):
            point = self._images.hold(mount.source, holder)
            yield str(point), point
            return
        hosts = self._names.hosts
        with descend(hosts, str(mount.source.relative_to(hosts))) as found:
            yield descriptor_path(found), mount.source

    def _mount(self, spec: ContainerSpec, holder: str) -> Path:
        root: Path | None = None
        for mount in spec.mounts:
            try:
                with self.source(mount, holder) as (source, path):
                    if root is None:
                        root = path
                    elif mount.path.strip("/"):
                        with ContainerRoot(root).directory(mount.path) as inside:
                            bind(source, descriptor_path(inside))
            except NotMountableError:
                raise NotMountableError(mount.key) from None
            except OSError as error:
                raise OperationError(f"unable to mount {mount.source}: {error.strerror}") from None
        if root is None:
            raise OperationError("rootfs not set")
        return root


def bind(source: str, target: str) -> None:
    """Bind-mount a directory."""
    # Without canonicalizing: the resolved path could lead elsewhere by the time the kernel uses it.
    ended = attempt("mount", "--no-canonicalize", "--bind", source, target)
    if not ended.ok:
        raise OperationError(f"command 'mount --bind {source} {target}' failed: exit code {ended.code}")
