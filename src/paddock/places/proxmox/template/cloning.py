"""Cloning a template: at once where its storage links clones, as a full copy on others, not at all on thick LVM.

Facts of pve-storage: ``volume_has_feature`` of each storage's plugin, for the features `clone` and `template`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.actions import CannotPlan
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen

LINKED: Final = frozenset({"lvmthin", "zfspool", "rbd", "btrfs"})
_COPIED: Final = frozenset({"dir", "nfs", "cifs", "cephfs", "glusterfs"})
_WITHOUT_TEMPLATES: Final = frozenset({"lvm"})

Order = Mapping[str, str | int]


def has_templates(kind: str) -> bool:
    """Whether a storage of this type can hold a template."""
    return kind not in _WITHOUT_TEMPLATES


def cost(kind: str) -> str:
    """Return the cost of a new machine on a storage of this type, in words; empty if it is a linked clone."""
    if not has_templates(kind):
        return "no templates: packages and code are installed in every new machine"
    return "no linked clones: every new machine is a full copy of its template" if kind in _COPIED else ""


def check_templates(node: ProxmoxSpec, seen: ProxmoxSeen) -> None:
    """Refuse to build a template on a storage that can hold none; Proxmox says so only after the build."""
    kind = seen.capacity.types.get(node.storage, "")
    if not has_templates(kind):
        raise CannotPlan(
            f"storage {node.storage} ({kind}) cannot hold a template",
            "write `template: none` for this place: packages and code are installed in every new machine, which takes"
            " longer; or use another storage",
            code="node.no-templates",
        )


def order(template: LxcContainer | None, node: ProxmoxSpec, wanted: str, seen: ProxmoxSeen) -> Order:
    """Return the parameters that decide how a template is cloned; None means one that is built on the place's storage.

    A linked clone is on the storage of its template.
    """
    root = template.mount("rootfs") if template else None
    there = root.storage if root else node.storage
    copies = seen.capacity.types.get(there) in _COPIED
    return {"full": 1, "storage": wanted} if copies or wanted != there else {}


def notes(storage: str, seen: ProxmoxSeen) -> Iterator[str]:
    """Yield a note for a plan that creates a machine, if that is slow on this storage."""
    kind = seen.capacity.types.get(storage, "")
    if kind in _COPIED:
        yield f"storage {storage} ({kind}) has {cost(kind)}, which takes longer and its whole size"


def as_possible(client: Client, template: LxcContainer, order: Order) -> Order:
    """Return the order as the node can carry it out: with a full copy if it does not link clones of this template."""
    if "full" in order:
        return order
    path = f"/nodes/{client.node}/lxc/{template.vmid}/feature"
    root = template.mount("rootfs")
    if root is None or int(client.get(path, {"feature": "clone"})["hasFeature"]):
        return order
    return {**order, "full": 1, "storage": root.storage}
