"""API method: resize a container's volume."""

from __future__ import annotations

from dataclasses import dataclass

from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.formats import format_size
from pvebox.api.routes import CONTAINER, DIGEST, Call, api, having
from pvebox.api.schema import Prop
from pvebox.cluster.tasks import Task
from pvebox.guests.config import CtConfig
from pvebox.guests.mountpoint import MountPoint, parse
from pvebox.guests.options import MOUNT_KEYS
from pvebox.methods.containers.settings import require_same_digest
from pvebox.runtime.contract import VolumeRef


@api.method(
    "PUT",
    f"{CONTAINER}/resize",
    having("/vms/{vmid}", "VM.Config.Disk"),
    {
        "disk": Prop(enum=MOUNT_KEYS),
        "size": Prop(pattern=r"\+?\d+(\.\d+)?[KMGT]?"),
        "digest": DIGEST,
    },
)
def resize(call: Call) -> str:
    """Grow a volume in a task. The checks are made before the task and again in it."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    _checked(call)

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid, task.say):
            growth = _checked(call)
            key = growth.point.key
            told = str(call.params["size"]).removeprefix("+")
            cluster.tasks.note(task, f"update CT {vmid}: resize --disk {key} --size {told}")
            task.say(
                f"  Size of logical volume {growth.lv} changed from"
                f" {format_size(growth.size)} to {format_size(growth.wanted)}."
            )
            online = cluster.runtime.containers.running(vmid)
            cluster.runtime.volumes.resize(growth.ref, growth.wanted, task.say, online=online)
            growth.config.options[key] = str(growth.point.on(growth.point.volume, growth.wanted))
            cluster.configs.save(vmid, node, growth.config)

    return cluster.tasks.start(node, "resize", str(vmid), call.user, work)


@dataclass(frozen=True)
class _Growth:
    """A checked resize: the mount point, its volume, and the volume's sizes before and after."""

    config: CtConfig
    point: MountPoint
    ref: VolumeRef
    lv: str
    size: int
    wanted: int


def _checked(call: Call) -> _Growth:
    """Return the volume of a resize and its new size. Raise if the resize is not possible."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    asked = str(call.params["size"])
    config = cluster.configs.load(vmid, node)
    config.require_unlocked()
    if not call.is_root:
        # Proxmox checks the parameter `disk` like an unknown config option, which needs this privilege.
        call.require(f"/vms/{vmid}", "VM.Config.Options")
    require_same_digest(config, call.text("digest"))
    key = str(call.params["disk"])
    # If the key is not set, the error is about the format of its value.
    point = parse(key, config.text(key) or "")
    storage, ref = cluster.locate(point.volume, node)
    owner = storage.parse(ref.name).owner
    if owner != vmid:
        raise OperationError(
            f"can't resize mount point owned by another container ({owner})"
            " at /usr/share/perl5/PVE/API2/LXC.pm line 2386."
        )
    call.require(f"/storage/{storage.id}", "Datastore.AllocateSpace")
    volume = cluster.runtime.volumes.get(ref)
    if volume is None:
        raise OperationError(storage.missing(ref.name))
    size = formats.parse_size(asked.removeprefix("+")) or 0
    size += volume.size if asked.startswith("+") else 0
    if size < volume.size:
        raise OperationError("unable to shrink disk size")
    if size == volume.size:
        raise OperationError("disk is already at specified size")
    return _Growth(config, point, ref, f"{storage.vgname}/{ref.name}", volume.size, size)
