"""API methods: files that a client uploads or a node downloads, and the templates that Proxmox offers."""

from __future__ import annotations

import hashlib
import re
from contextvars import ContextVar
from typing import Any, Final

from pvebox.api.errors import OperationError, ParameterError, PrivilegeError
from pvebox.api.routes import STORAGE, Call, anybody, api, having
from pvebox.api.schema import FLAG, Prop
from pvebox.cluster.tasks import Task
from pvebox.guests.downloads import fetch
from pvebox.guests.storage import Storage

_ENDINGS: Final = {
    "iso": r"\.(iso|img)",
    "vztmpl": r"\.tar(\.(gz|xz|zst|bz2))?|\.t[gx]z",
    "import": r"\.(ova|qcow2|raw|vmdk)",
}
_ALGORITHMS: Final = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
_FILE: Final = {
    "content": Prop(enum=("iso", "vztmpl", "import")),
    "filename": Prop(max_length=255),
    "checksum": Prop(optional=True, requires="checksum-algorithm"),
    "checksum-algorithm": Prop(optional=True, enum=_ALGORITHMS, requires="checksum"),
}
# The file of the current request. A parameter cannot name it, so no request can read another file of this machine.
UPLOADED: ContextVar[bytes | None] = ContextVar("uploaded", default=None)


def _file_name(call: Call) -> str:
    """Return the last part of the file name that a call gives, with every unusual character replaced."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", str(call.params["filename"]).rsplit("/", 1)[-1])


@api.method(
    "POST",
    "/nodes/{node}/storage/{storage}/upload",
    having("/storage/{storage}", "Datastore.AllocateTemplate"),
    _FILE,
)
def upload(call: Call) -> str:
    """Store an uploaded file in a task."""
    cluster, node = call.cluster, call.node
    storage, content = cluster.storage(str(call.params["storage"])), str(call.params["content"])
    if storage.disabled:
        raise OperationError(f"storage '{storage.id}' is disabled")
    if storage.type.is_lvm:
        raise OperationError(f"can't upload to storage type '{storage.type}'")
    data = UPLOADED.get()
    if data is None:
        raise OperationError("missing temporary file name")
    name = _file_name(call)
    if not re.fullmatch(rf".+({_ENDINGS[content]})", name, re.IGNORECASE):
        raise ParameterError({"filename": "wrong file extension"})
    if content not in storage.content:
        raise OperationError(f"storage '{storage.id}' does not support '{content}' content")
    stored, wanted = f"{content}/{name}", call.text("checksum")
    storage.parse(stored)
    algorithm = str(call.params.get("checksum-algorithm", "sha256"))

    def work(task: Task) -> None:
        task.say(f"target node: {node}", f"target file: {storage.device(stored)}", f"file size is: {len(data)}")
        if wanted is not None:
            found = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
            if found != wanted.lower():
                raise OperationError(f"checksum mismatch: got '{found}' != expect '{wanted}'")
            task.say("OK, checksum verified")
        target = cluster.runtime.file(node, storage.id, stored)
        if target is None:
            cluster.runtime.note_file(node, storage.id, stored, len(data))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_bytes(data)
        task.say("finished file import successfully")

    return cluster.tasks.start(node, "imgcopy", "", call.user, work)


@api.method("GET", "/nodes/{node}/aplinfo", anybody)
def templates(call: Call) -> list[dict[str, Any]]:
    """Return the index of downloadable templates that the fixture has. The sandbox does not fetch one."""
    return [dict(entry) for entry in call.cluster.index]


@api.method(
    "POST",
    "/nodes/{node}/aplinfo",
    having("/storage/{storage}", "Datastore.AllocateTemplate"),
    {"storage": STORAGE, "template": Prop(max_length=255)},
)
def download_template(call: Call) -> str:
    """Download a template of the index in a task."""
    name = str(call.params["template"])
    entry = next((entry for entry in call.cluster.index if entry["template"] == name), None)
    if entry is None:
        raise ParameterError({"template": "no such template"})
    storage = call.cluster.storage(str(call.params["storage"]))
    if "vztmpl" not in storage.content:
        raise OperationError(f"cannot download to storage type '{storage.type}'")
    checksum = ("sha512", str(entry["sha512sum"]))
    return _fetched(call, storage, f"vztmpl/{name}", str(entry["location"]), checksum, verify=True)


def _may_download(call: Call) -> None:
    path = f"/storage/{call.params['storage']}"
    network = call.allows("/", "Sys.Audit", "Sys.Modify") or call.allows(
        f"/nodes/{call.params['node']}", "Sys.AccessNetwork"
    )
    if not call.allows(path, "Datastore.AllocateTemplate") or not network:
        raise PrivilegeError


@api.method(
    "POST",
    "/nodes/{node}/storage/{storage}/download-url",
    _may_download,
    {**_FILE, "url": Prop(pattern=r"https?://.*"), "compression": Prop(optional=True), "verify-certificates": FLAG},
)
def download(call: Call) -> str:
    """Download a file in a task."""
    storage, content = call.cluster.storage(str(call.params["storage"])), str(call.params["content"])
    if content not in storage.content:
        raise OperationError(f"storage '{storage.id}' is not configured for content-type '{content}'")
    name = f"{content}/{_file_name(call)}"
    try:
        storage.parse(name)
    except OperationError:
        raise ParameterError({"filename": "wrong file extension"}) from None
    algorithm, verify = call.text("checksum-algorithm"), call.flag("verify-certificates", default=True)
    checksum = (algorithm, str(call.params["checksum"])) if algorithm is not None else None
    return _fetched(call, storage, name, str(call.params["url"]), checksum, verify=verify)


def _fetched(
    call: Call, storage: Storage, name: str, url: str, checksum: tuple[str, str] | None, *, verify: bool
) -> str:
    """Start the task that downloads a file, and return its UPID."""
    cluster, node = call.cluster, call.node

    def work(task: Task) -> None:
        target = cluster.runtime.file(node, storage.id, name)
        if target is None:
            cluster.runtime.note_file(node, storage.id, name, 0)
        else:
            fetch(url, target, checksum, verify=verify, task=task)

    return cluster.tasks.start(node, "download", name.partition("/")[2], call.user, work)
