"""Create, run and stop LXC containers."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from pvebox.api.errors import OperationError
from pvebox.api.schema import parse_property_string
from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig
from pvebox.guests.options import FEATURES
from pvebox.runtime.contract import (
    Archive,
    ArchiveOrder,
    ContainerSpec,
    Interface,
    Mount,
    NotMountableError,
    Say,
    Unpacked,
    Usage,
    VolumeRef,
)
from pvebox.runtime.lxc import containerfiles, figures, lxcconfig, packing
from pvebox.runtime.lxc.containerroot import ContainerRoot
from pvebox.runtime.lxc.images import Images
from pvebox.runtime.lxc.mounts import mount_in_container, mounted_below, unmount
from pvebox.runtime.lxc.names import Names
from pvebox.runtime.lxc.trees import Trees, bind
from pvebox.server.process import CommandError, attempt, start_ticks

# Without newuidmap on the PATH, LXC writes the id maps itself. newuidmap would need entries in /etc/subuid.
_WITHOUT_NEWUIDMAP: Final = {"PATH": "/nonexistent", "LANG": "C.UTF-8"}
_POLL: Final = 0.5
_FREEZE_ATTEMPTS: Final = 8
_FREEZE_TIMEOUT: Final = 3.0
_PATH_IN_CONTAINER: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LxcContainers:
    """The LXC containers of one sandbox."""

    def __init__(self, names: Names, images: Images, gateway: str, stopped: Callable[[int], None]) -> None:
        self._names = names
        self._images = images
        self._trees = Trees(names, images)
        self._gateway = gateway
        self._stopped = stopped
        self._pids: dict[int, tuple[int, str]] = {}
        self._ending: set[int] = set()
        self._keys: dict[int, Future[dict[str, bytes]]] = {}
        self._pool = ThreadPoolExecutor(thread_name_prefix="keys")
        self._lock = threading.RLock()
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def adopt(self, spec: ContainerSpec) -> bool:
        """Track a container that an earlier server started. Return whether it is running."""
        pid = self._init_pid(spec.vmid)
        if pid is None:
            return False
        for mount in spec.mounts:
            if isinstance(mount.source, VolumeRef):
                self._images.adopt(mount.source, f"ct{spec.vmid}")
        self._pids[spec.vmid] = (pid, start_ticks(pid))
        # The earlier server may have been killed while it copied the container's volumes.
        attempt("lxc-unfreeze", *self._named(spec.vmid))
        return True

    def running(self, vmid: int) -> bool:
        """Return whether a container runs. If it has stopped by itself, clean up after it first."""
        return self._alive(vmid) or (vmid in self._pids and self._track_or_clean_up(vmid))

    def _alive(self, vmid: int) -> bool:
        known = self._pids.get(vmid)
        return known is not None and start_ticks(known[0]) == known[1] != ""

    def populate(self, spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        """Unpack a template archive into a container's mounts, with the ids of the container's root."""
        hostname = (spec.config.text("hostname") or "localhost").split(".", 1)[0]
        self._keys[spec.vmid] = self._pool.submit(containerfiles.new_host_keys, hostname, self._names.state)
        with self._trees.mounted(spec, f"create{spec.vmid}") as root:
            packing.unpack(archive, root, task)
            return Unpacked(systemd=containerfiles.systemd_version(ContainerRoot(root)))

    def prepare(self, spec: ContainerSpec, password: str | None, ssh_keys: str | None, say: Say) -> None:
        """Write ssh host keys, name, network and accounts into a new container."""
        with self._trees.mounted(spec, f"create{spec.vmid}") as tree:
            root = ContainerRoot(tree)
            containerfiles.forget_machine(root)
            containerfiles.write_identity(root, spec.vmid, spec.config)
            containerfiles.write_resolver(root, spec.config, self._gateway)
            containerfiles.write_host_trust(root)
            containerfiles.write_accounts(root, password, ssh_keys)
            keys = self._keys.pop(spec.vmid, None)
            if keys is not None:
                containerfiles.write_host_keys(root, keys.result(), say)

    def settle_clone(self, spec: ContainerSpec) -> Unpacked:
        """Give a clone its own machine id and name. As on Proxmox, it keeps the ssh host keys of its source."""
        with self._trees.mounted(_only_root(spec), f"clone{spec.vmid}") as tree:
            root = ContainerRoot(tree)
            containerfiles.forget_machine(root)
            containerfiles.write_identity(root, spec.vmid, spec.config)
            return Unpacked(systemd=containerfiles.systemd_version(root))

    def start(self, spec: ContainerSpec) -> None:
        """Start a container and return when its init runs."""
        holder = f"ct{spec.vmid}"
        log = self._names.lxc_path / self._names.container(spec.vmid) / "start.log"
        try:
            root, entries = self._hold_mounts(spec, holder)
            inside = ContainerRoot(root)
            containerfiles.write_identity(inside, spec.vmid, spec.config)
            containerfiles.write_resolver(inside, spec.config, self._gateway)
            for _, mount in entries:
                inside.make_directory(mount.path)
            features = parse_property_string(spec.config.text("features") or "", FEATURES)
            text = lxcconfig.render(self._names, spec, root, entries, nesting=features.get("nesting") == "1")
            log.parent.mkdir(parents=True, exist_ok=True)
            (log.parent / "config").write_text(text, encoding="utf-8")
            log.unlink(missing_ok=True)
            program = shutil.which("lxc-start") or "lxc-start"
            ended = attempt(
                *(program, *self._named(spec.vmid), "-d", "-o", str(log), "-l", "WARN"),
                environment=_WITHOUT_NEWUIDMAP,
            )
            pid = self._started_pid(spec.vmid, ended.ok)
        except NotMountableError:
            self._release(spec.vmid)
            raise OperationError(f"startup for container '{spec.vmid}' failed") from None
        except BaseException:
            self._release(spec.vmid)
            raise
        with self._lock:
            self._pids[spec.vmid] = (pid, start_ticks(pid))

    def _started_pid(self, vmid: int, started: bool) -> int:
        pid = self._init_pid(vmid) if started else None
        if pid is None:
            raise OperationError(f"startup for container '{vmid}' failed")
        return pid

    def _hold_mounts(self, spec: ContainerSpec, holder: str) -> tuple[Path, list[tuple[Path, Mount]]]:
        root: Path | None = None
        entries: list[tuple[Path, Mount]] = []
        for mount in spec.mounts:
            try:
                with self._trees.source(mount, holder) as (name, source):
                    if not isinstance(mount.source, VolumeRef):
                        # LXC needs a source that the container's root can reach.
                        source = self._names.mounts / ".bind" / f"{spec.vmid}-{mount.key}"
                        source.mkdir(parents=True, exist_ok=True)
                        bind(name, str(source))
            except OSError:
                raise OperationError(f"startup for container '{spec.vmid}' failed") from None
            if root is None:
                root = source
            elif mount.path.strip("/"):
                entries.append((source, mount))
        if root is None:
            raise OperationError(f"startup for container '{spec.vmid}' failed")
        return root, entries

    def _release(self, vmid: int) -> None:
        for point in mounted_below(self._names.mounts / ".bind"):
            if point.name.startswith(f"{vmid}-"):
                unmount(point)
                point.rmdir()
        self._images.release(f"ct{vmid}")

    def stop(self, vmid: int) -> None:
        """Kill a container and unmount its volumes."""
        with self._stopping(vmid):
            attempt("lxc-stop", *self._named(vmid), "--kill")
            self._clean_up(vmid)

    def crash(self, vmid: int) -> None:
        """Stop a container as a power cut does: changes that are not on its volumes yet are lost."""
        self._images.cut_off(f"ct{vmid}")
        self.stop(vmid)

    def shutdown(self, vmid: int, timeout: float) -> bool:
        """Ask a container's init to power off; return whether it stopped within the timeout."""
        with self._stopping(vmid):
            until = time.monotonic() + timeout
            while self._alive(vmid):
                # Repeat the request: an init that is still starting ignores the first one.
                left = until - time.monotonic()
                if left <= 0:
                    return False
                patience = str(max(1, int(min(2, left))))
                attempt("lxc-stop", *self._named(vmid), "--nokill", "--timeout", patience)
            self._clean_up(vmid)
            return True

    @contextlib.contextmanager
    def _stopping(self, vmid: int) -> Iterator[None]:
        """Keep other threads from cleaning up after a container while this thread stops it."""
        self._ending.add(vmid)
        try:
            yield
        finally:
            self._ending.discard(vmid)

    def _clean_up(self, vmid: int) -> None:
        """Clean up after a stopped container, once."""
        with self._lock:
            if self._pids.pop(vmid, None) is None:
                return
            self._wait_for_monitor(vmid)
            self._release(vmid)
            shutil.rmtree(self._names.lxc_path / self._names.container(vmid), ignore_errors=True)
        self._stopped(vmid)

    def _wait_for_monitor(self, vmid: int) -> None:
        """Wait until LXC's monitor process has removed the container's cgroups, its last action."""
        name = self._names.container(vmid)
        for _ in range(100):
            if not figures.control_groups(name):
                return
            time.sleep(0.02)

    def _watch(self) -> None:
        """Poll for containers that have stopped or rebooted by themselves."""
        while not self._closing.wait(_POLL):
            for vmid in list(self._pids):
                self.running(vmid)
            self._images.unmount_idle()

    def _track_or_clean_up(self, vmid: int) -> bool:
        """Track the new init of a rebooted container and return True, or clean up after a stopped one."""
        with self._lock:
            if vmid not in self._pids or vmid in self._ending:
                return False
            pid = self._init_pid(vmid)
            if pid is not None:
                self._pids[vmid] = (pid, start_ticks(pid))
                return True
        self._clean_up(vmid)
        return False

    @contextlib.contextmanager
    def frozen(self, vmid: int) -> Iterator[None]:
        """Freeze a running container and write its changes to disk, until the block ends."""
        try:
            self._freeze(vmid)
            self._images.write_out(f"ct{vmid}")
            yield
        finally:
            # Unfreeze also if the freezing failed: some processes may be frozen.
            ended = attempt("lxc-unfreeze", *self._named(vmid))
            if not ended.ok and self._alive(vmid):
                raise CommandError(ended)

    def _freeze(self, vmid: int) -> None:
        # With cgroups v1 the kernel sometimes never freezes a process that waits for its vfork. Then try again.
        for _ in range(_FREEZE_ATTEMPTS):
            ended = attempt("lxc-freeze", *self._named(vmid), timeout=_FREEZE_TIMEOUT)
            if ended.ok:
                return
            attempt("lxc-unfreeze", *self._named(vmid))
        raise CommandError(ended)

    def _named(self, vmid: int) -> tuple[str, ...]:
        return "-P", str(self._names.lxc_path), "-n", self._names.container(vmid)

    def mount_live(self, vmid: int, mount: Mount) -> None:
        """Add a mount to a running container."""
        pid = self._pids[vmid][0]
        try:
            with self._trees.source(mount, f"ct{vmid}") as (source, _):
                mount_in_container(pid, source, "/" + mount.path.strip("/"), read_only=mount.read_only)
        except NotMountableError as error:
            raise OperationError(f"unable to mount {error}: no filesystem") from None
        except OSError as error:
            raise OperationError(f"unable to mount {mount.source}: {error.strerror}") from None

    def limit_live(self, vmid: int, options: Mapping[str, object]) -> None:
        """Set a running container's memory limit."""
        memory = options.get("memory")
        if memory is None:
            return
        for directory in figures.control_groups(self._names.container(vmid)):
            for name in ("memory.limit_in_bytes", "memory.max"):
                with contextlib.suppress(OSError):
                    if (directory / name).exists():
                        (directory / name).write_text(str(int(str(memory)) << 20), encoding="ascii")

    def execute(self, vmid: int, argv: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Run a program as root in a running container; return its exit code, output and error output."""
        ended = attempt(*self.attach_command(vmid, argv), stdin=stdin, timeout=600)
        return ended.code, ended.out, ended.err

    def attach_command(self, vmid: int, argv: Sequence[str]) -> list[str]:
        """Return the command that runs a program in a running container with the caller's input and output."""
        path = f"PATH={_PATH_IN_CONTAINER}"
        return ["lxc-attach", *self._named(vmid), "--clear-env", "--set-var", path, "--", *argv]

    def push(self, spec: ContainerSpec, path: str, content: bytes, mode: int) -> None:
        """Write a file into a container."""
        with self._trees.mounted(_only_root(spec), f"push{spec.vmid}") as root:
            ContainerRoot(root).write(path, content, mode)

    def usage(self, vmid: int) -> Usage:
        """Return the resource usage of a running container."""
        pid, start_ticks = self._pids[vmid]
        return figures.usage(self._names, vmid, pid, start_ticks)

    def interfaces(self, vmid: int, config: CtConfig) -> list[Interface]:
        """Return the network interfaces of a running container."""
        return figures.interfaces(self._pids[vmid][0])

    def archive(self, order: ArchiveOrder, task: Task, say: Say) -> int:
        """Pack a container's mounts and its config into an archive file; return its size."""
        try:
            with self._trees.staged(order.spec, f"backup{order.spec.vmid}") as stage:
                return packing.pack(stage, order, task, say)
        except NotMountableError as error:
            raise OperationError(f"unable to mount {error}: no filesystem") from None

    def close(self) -> None:
        """Stop polling. Containers keep running."""
        self._closing.set()
        self._images.unmount_idle(after=0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _init_pid(self, vmid: int) -> int | None:
        if not (self._names.lxc_path / self._names.container(vmid) / "config").exists():
            return None
        ended = attempt("lxc-info", *self._named(vmid), "--pid", "--no-humanize")
        text = ended.out.strip()
        return int(text) if ended.ok and text.isdecimal() and int(text) > 0 else None


def _only_root(spec: ContainerSpec) -> ContainerSpec:
    """Return the spec of the same container with its root as the only mount."""
    mounts = [mount for mount in spec.mounts if mount.key == "rootfs"]
    return ContainerSpec(spec.vmid, spec.node, spec.config, mounts)
