"""API method: resize a container's volume."""

from __future__ import annotations

from .. import formats
from ..disks import parse_existing
from ..errors import OperationError
from ..formats import format_size
from ..options import MOUNT_KEYS
from ..routes import DIGEST, Call, api, having
from ..schema import Prop
from ..tasks import Task
from .settings import require_same_digest

_CONTAINER = "/nodes/{node}/lxc/{vmid}"


@api.method(
    "PUT",
    f"{_CONTAINER}/resize",
    having("/vms/{vmid}", "VM.Config.Disk"),
    {
        "disk": Prop(enum=MOUNT_KEYS),
        "size": Prop(pattern=r"\+?\d+(\.\d+)?[KMGT]?"),
        "digest": DIGEST,
    },
)
def resize(call: Call) -> str:
    """Grow a volume in a task."""
    cluster, vmid, node, disk = call.cluster, call.vmid, call.node, str(call.params["disk"])
    asked = str(call.params["size"])
    config = cluster.configs.load(vmid, node)
    config.require_unlocked()
    if not call.is_root:
        # Proxmox checks the parameter `disk` like an unknown config option, which needs this privilege.
        call.require(f"/vms/{vmid}", "VM.Config.Options")
    require_same_digest(config, call.text("digest"))
    point = parse_existing(disk, config)
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

    def work(task: Task) -> None:
        with cluster.configs.lock(vmid):
            fresh = cluster.configs.load(vmid, node)
            fresh.require_unlocked()
            task.say(
                f"  Size of logical volume {storage.vgname}/{ref.name} changed from"
                f" {format_size(volume.size)} to {format_size(size)}."
            )
            online = cluster.runtime.containers.running(vmid)
            cluster.runtime.volumes.resize(ref, size, task.say, online=online)
            fresh.options[disk] = str(parse_existing(disk, fresh).on(point.volume, size))
            cluster.configs.save(vmid, node, fresh)

    return cluster.start_task(node, "resize", str(vmid), call.user, work)
