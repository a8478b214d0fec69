"""API methods: read and change a container's config, and list pending changes."""

from __future__ import annotations

from typing import Any

from pvebox.access.rights import require_config_rights
from pvebox.api import formats
from pvebox.api.errors import OperationError, ParameterError
from pvebox.api.routes import AUDIT, CONTAINER, DIGEST, Call, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.guests.change import update
from pvebox.guests.config import CtConfig
from pvebox.guests.options import SETTABLE

_ANY_CONFIG = having(
    "/vms/{vmid}",
    "VM.Config.Disk",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    any_of=True,
)
_KEYS = formats.list_of(formats.configid)


@api.method(
    "GET",
    f"{CONTAINER}/config",
    AUDIT,
    {
        "current": FLAG,
        "snapshot": Prop(optional=True, format=formats.configid, max_length=40),
    },
)
def read(call: Call) -> dict[str, Any]:
    """Return a container's config, with pending changes unless the caller asks for the current one."""
    snapshot = call.text("snapshot")
    if snapshot is not None and call.flag("current"):
        both = "cannot use 'snapshot' parameter with 'current'"
        raise ParameterError({"snapshot": both, "current": both})
    config = call.cluster.configs.load(call.vmid, call.node)
    shown = _current(config, pending=not call.flag("current")) if snapshot is None else dict(config.section(snapshot))
    if not call.allows(f"/vms/{call.vmid}", "VM.Config.Options"):
        shown.pop("env", None)
    shown["digest"] = config.digest
    return shown


def _current(config: CtConfig, *, pending: bool) -> dict[str, Any]:
    shown: dict[str, Any] = dict(config.options)
    if pending:
        shown |= config.pending
        for key in config.pending_delete:
            shown.pop(key, None)
    if config.raw_lxc:
        shown["lxc"] = [list(pair) for pair in config.raw_lxc]
    return shown


@api.method("GET", f"{CONTAINER}/pending", AUDIT)
def pending(call: Call) -> list[dict[str, Any]]:
    """Return each option with its value, its pending value and its pending deletion."""
    config = call.cluster.configs.load(call.vmid, call.node)
    entries = []
    current = {**config.options, "digest": config.digest}
    for key in [*current, *(key for key in config.pending if key not in current)]:
        entry: dict[str, Any] = {"key": key}
        if key in current:
            entry["value"] = current[key]
        if key in config.pending:
            entry["pending"] = config.pending[key]
        if key in config.pending_delete:
            entry["delete"] = 1
        entries.append(entry)
    return entries


@api.method(
    "PUT",
    f"{CONTAINER}/config",
    _ANY_CONFIG,
    {
        **SETTABLE,
        "delete": Prop(optional=True, format=_KEYS),
        "revert": Prop(optional=True, format=_KEYS),
        "digest": DIGEST,
    },
)
def change(call: Call) -> None:
    """Change, delete or revert options."""
    cluster, vmid, node = call.cluster, call.vmid, call.node
    asked = {key: value for key, value in call.params.items() if key not in ("node", "vmid", "digest")}
    if not asked:
        raise OperationError("no options specified")
    delete = formats.split_list(str(asked.pop("delete", "")))
    revert = formats.split_list(str(asked.pop("revert", "")))
    with cluster.configs.lock(vmid):
        config = cluster.configs.load(vmid, node)
        config.require_unlocked()
        require_same_digest(config, call.text("digest"))
        unprivileged = config.flag("unprivileged")
        old = config.options
        require_config_rights(call, vmid, None, old, {}, delete, unprivileged=unprivileged)
        require_config_rights(call, vmid, None, old, {}, revert, unprivileged=unprivileged)
        _require_known(asked, delete, revert)
        require_config_rights(call, vmid, None, old, asked, [], unprivileged=unprivileged)
        errors = update(cluster, vmid, node, config, changes=asked, delete=delete, revert=revert)
    if errors:
        raise ParameterError(errors)


def _require_known(asked: dict[str, Any], delete: list[str], revert: list[str]) -> None:
    for key in revert:
        if key not in SETTABLE:
            raise ParameterError({"revert": f"unknown option '{key}'"})
        if key in asked:
            raise ParameterError({"revert": f"you can't use '-{key}' and '-revert {key}' at the same time"})
    for key in delete:
        if key not in SETTABLE:
            raise ParameterError({"delete": f"unknown option '{key}'"})
        if key in asked:
            # The missing quotation mark is Proxmox's.
            raise ParameterError({"delete": f"you can't use '-{key}' and -delete {key}' at the same time"})
        if key in revert:
            raise ParameterError({"delete": f"you can't use '-delete {key}' and '-revert {key}' at the same time"})


def require_same_digest(config: CtConfig, digest: str | None) -> None:
    """Raise if the digest that a client sent is not the digest of the current config."""
    if digest and digest != config.digest:
        raise OperationError("detected modified configuration - file changed by other user? Try again.")
