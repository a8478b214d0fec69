"""API methods: pools and their members."""

from __future__ import annotations

from typing import Any

from pvebox.access.accounts import Pool, existing
from pvebox.access.changes import changed_access
from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.routes import Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.methods.cluster.system import storage_resource

_POOLID = Prop(format=formats.poolid)
_TYPE = Prop(optional=True, enum=("qemu", "lxc", "storage"))
_ALLOCATE = having("/pool/{poolid}", "Pool.Allocate")
_CHANGES = {
    "poolid": _POOLID,
    "comment": Prop(optional=True),
    "vms": Prop(optional=True, format=formats.list_of(formats.vmid)),
    "storage": Prop(optional=True, format=formats.list_of(formats.storage_id)),
    "allow-move": FLAG,
    "delete": FLAG,
}


@api.method(
    "GET",
    "/pools",
    anybody,
    {
        "poolid": Prop(optional=True, format=formats.poolid),
        "type": Prop(optional=True, enum=_TYPE.enum, requires="poolid"),
    },
)
def pools(call: Call) -> list[dict[str, Any]]:
    """Return the pools that the caller may see, or one pool with its members."""
    if call.text("poolid") is not None:
        # Proxmox does not check Pool.Audit here, and lists members that the caller may not see.
        return [pool(call)]
    return [
        {"poolid": name, **_comment(pool)}
        for name, pool in sorted(call.cluster.access.pools.items())
        if call.allows(f"/pool/{name}", "Pool.Audit")
    ]


@api.method("GET", "/pools/{poolid}", having("/pool/{poolid}", "Pool.Audit"), {"poolid": _POOLID, "type": _TYPE})
def pool(call: Call) -> dict[str, Any]:
    """Return one pool with its members."""
    name = str(call.params["poolid"])
    found = existing(call.cluster.access.pools, "pool", name)
    wanted = call.text("type")
    members = []
    if wanted in (None, "lxc"):
        for vmid in sorted(found.vmids):
            if call.cluster.configs.exists(vmid):
                entry = call.cluster.statistics.of(vmid)
                # Only the cluster's resource list has these.
                members.append({key: value for key, value in entry.items() if key not in ("pool", "tags", "lock")})
    if wanted in (None, "storage"):
        for storage_id in sorted(found.storages & set(call.cluster.storages)):
            storage = call.cluster.storages[storage_id]
            node = min(storage.nodes) if storage.nodes else next(iter(call.cluster.nodes))
            members.append(storage_resource(call, node, storage))
    return {"poolid": name, "members": members, **_comment(found)}


def _comment(pool: Pool) -> dict[str, str]:
    return {"comment": pool.comment} if pool.comment else {}


@api.method("POST", "/pools", _ALLOCATE, {"poolid": _POOLID, "comment": Prop(optional=True)})
def create_pool(call: Call) -> None:
    """Create an empty pool."""
    name = str(call.params["poolid"])
    with changed_access(call, "create pool failed") as access:
        if name in access.pools:
            raise OperationError(f"pool '{name}' already exists")
        access.pools[name] = Pool(call.text("comment") or "")


@api.method("PUT", "/pools", _ALLOCATE, _CHANGES)
@api.method("PUT", "/pools/{poolid}", _ALLOCATE, _CHANGES)
def change_pool(call: Call) -> None:
    """Change a pool's comment, or add or remove containers and storages."""
    name = str(call.params["poolid"])
    with changed_access(call, "update pools failed") as access:
        changed = existing(access.pools, "pool", name)
        if (comment := call.text("comment")) is not None:
            changed.comment = comment
        for vmid in formats.split_list(call.text("vms") or ""):
            _change_container(call, access.pools, name, int(vmid))
        for storage in formats.split_list(call.text("storage") or ""):
            _change_storage(call, changed, storage)


def _change_container(call: Call, pools: dict[str, Pool], name: str, vmid: int) -> None:
    call.require(f"/vms/{vmid}", "Permissions.Modify", "VM.Allocate", any_of=True)
    members = pools[name].vmids
    if call.flag("delete"):
        if vmid not in members:
            raise OperationError(f"VM {vmid} is not a pool member")
        members.discard(vmid)
        return
    if vmid in members:
        raise OperationError(f"VM {vmid} is already a pool member")
    current = next((other for other, pool in pools.items() if vmid in pool.vmids), None)
    if current is not None:
        if not call.flag("allow-move"):
            raise OperationError(f"VM {vmid} belongs already to pool '{current}' and 'allow-move' is not set")
        call.require(f"/pool/{current}", "Pool.Allocate")
        pools[current].vmids.discard(vmid)
    members.add(vmid)


def _change_storage(call: Call, pool: Pool, storage: str) -> None:
    call.require(f"/storage/{storage}", "Permissions.Modify", "Datastore.Allocate", any_of=True)
    if call.flag("delete"):
        if storage not in pool.storages:
            raise OperationError(f"Storage '{storage}' is not a pool member")
        pool.storages.discard(storage)
    elif storage in pool.storages:
        raise OperationError(f"Storage '{storage}' is already a pool member")
    else:
        pool.storages.add(storage)


@api.method("DELETE", "/pools", _ALLOCATE, {"poolid": _POOLID})
@api.method("DELETE", "/pools/{poolid}", _ALLOCATE, {"poolid": _POOLID})
def delete_pool(call: Call) -> None:
    """Delete an empty pool, and the ACLs on it."""
    name = str(call.params["poolid"])
    with changed_access(call, "delete pool failed") as access:
        deleted = existing(access.pools, "pool", name)
        for vmid in sorted(deleted.vmids):
            if call.cluster.configs.exists(vmid):
                raise OperationError(f"pool '{name}' is not empty (contains VM {vmid})")
        for storage in sorted(deleted.storages & set(call.cluster.storages)):
            raise OperationError(f"pool '{name}' is not empty (contains storage '{storage}')")
        del access.pools[name]
        access.acl = [entry for entry in access.acl if entry.path != f"/pool/{name}"]
