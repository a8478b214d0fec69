"""Proxmox's privileges and built-in roles, and the paths of ACLs."""

from __future__ import annotations

import re
from typing import Final

_VM_CONFIG: Final = frozenset(
    f"VM.Config.{part}" for part in ("CDROM", "CPU", "Cloudinit", "Disk", "HWType", "Memory", "Network", "Options")
)
_GUEST_AGENT: Final = frozenset(
    f"VM.GuestAgent.{part}" for part in ("Audit", "FileRead", "FileSystemMgmt", "FileWrite", "Unrestricted")
)
_VM_USER: Final = frozenset(
    {"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt"}
    | {"VM.GuestAgent.Audit"}
)
_VM_ADMIN: Final = (
    _VM_CONFIG
    | _GUEST_AGENT
    | _VM_USER
    | {"VM.Allocate", "VM.Clone", "VM.Migrate", "VM.Replicate", "VM.Snapshot", "VM.Snapshot.Rollback"}
)
_DATASTORE_ADMIN: Final = frozenset(
    {
        "Datastore.Allocate",
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Audit",
    }
)
_SDN_ADMIN: Final = frozenset({"SDN.Allocate", "SDN.Audit", "SDN.Use"})
_MAPPING_ADMIN: Final = frozenset({"Mapping.Audit", "Mapping.Modify", "Mapping.Use"})
_POOL_ADMIN: Final = frozenset({"Pool.Allocate", "Pool.Audit"})
_USER_ADMIN: Final = frozenset({"Group.Allocate", "Realm.AllocateUser", "User.Modify"})
_SYS_ADMIN: Final = frozenset({"Sys.Audit", "Sys.Console", "Sys.Syslog"})
_AUDIT: Final = frozenset(
    {
        "Datastore.Audit",
        "Mapping.Audit",
        "Pool.Audit",
        "SDN.Audit",
        "Sys.Audit",
        "VM.Audit",
        "VM.GuestAgent.Audit",
    }
)
_ROOT: Final = frozenset(
    {
        "Permissions.Modify",
        "Realm.Allocate",
        "Sys.AccessNetwork",
        "Sys.Incoming",
        "Sys.Modify",
        "Sys.PowerMgmt",
    }
)
_PVE_ADMIN: Final = _VM_ADMIN | _DATASTORE_ADMIN | _SDN_ADMIN | _MAPPING_ADMIN | _POOL_ADMIN | _USER_ADMIN | _SYS_ADMIN

ALL: Final[frozenset[str]] = _PVE_ADMIN | _ROOT

BUILT_IN_ROLES: Final[dict[str, frozenset[str]]] = {
    "Administrator": ALL,
    "NoAccess": frozenset(),
    "PVEAdmin": _PVE_ADMIN - {"Mapping.Modify"},
    "PVEAuditor": _AUDIT,
    "PVEDatastoreAdmin": _DATASTORE_ADMIN,
    "PVEDatastoreUser": frozenset({"Datastore.AllocateSpace", "Datastore.Audit"}),
    "PVEMappingAdmin": _MAPPING_ADMIN,
    "PVEMappingAuditor": frozenset({"Mapping.Audit"}),
    "PVEMappingUser": frozenset({"Mapping.Audit", "Mapping.Use"}),
    "PVEPoolAdmin": _POOL_ADMIN,
    "PVEPoolUser": frozenset({"Pool.Audit"}),
    "PVESDNAdmin": _SDN_ADMIN,
    "PVESDNUser": frozenset({"SDN.Audit", "SDN.Use"}),
    "PVESysAdmin": _SYS_ADMIN,
    "PVETemplateUser": frozenset({"VM.Audit", "VM.Clone"}),
    "PVEUserAdmin": _USER_ADMIN,
    "PVEVMAdmin": _VM_ADMIN,
    "PVEVMUser": _VM_USER,
}


_NAME: Final = r"[A-Za-z0-9.\-_]+"
_ALLOWED: Final = re.compile(
    rf"/|/access(/(groups|realm)(/{_NAME})?)?|/mapping(/{_NAME}){{0,2}}|/(nodes|storage)(/{_NAME})?"
    rf"|/pool(/{_NAME}){{0,3}}|/sdn(/{_NAME}){{0,4}}|/vms(/[1-9][0-9]{{2,}})?"
)


def normalized(path: str) -> str | None:
    """Return a path with one slash at its start and none at its end, or None if it has other characters."""
    if not path:
        return None
    plain = "/" + re.sub(r"/+", "/", path).strip("/")
    return plain if re.fullmatch(r"[A-Za-z0-9.\-_/]+", plain) else None


def is_allowed(path: str) -> bool:
    """Return whether an ACL may have this path."""
    return _ALLOWED.fullmatch(path) is not None
