"""What a user of proxmoxer does with a node. A test runs one function of this file in proxmoxer's environment."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from proxmoxer import AuthenticationError, ProxmoxAPI, ResourceException  # type: ignore[import-not-found]
from proxmoxer.tools import Tasks  # type: ignore[import-not-found]

GIVEN = os.environ


def connect(**more: Any) -> Any:
    return ProxmoxAPI(GIVEN["PROXMOX_HOST"], port=int(GIVEN["PROXMOX_PORT"]), verify_ssl=GIVEN["PROXMOX_CA"], **more)


def by_token() -> Any:
    name, secret = GIVEN["PROXMOX_TOKEN_ID"], GIVEN["PROXMOX_TOKEN_SECRET"]
    return connect(user=GIVEN["PROXMOX_USER"], token_name=name, token_value=secret)


def by_password() -> Any:
    return connect(user="root@pam", password=GIVEN["PROXMOX_ROOT_PASSWORD"])


def done(api: Any, upid: str, wanted: str = "OK") -> None:
    ended = Tasks.blocking_status(api, upid, timeout=60, polling_interval=0.1)
    assert ended is not None, f"{upid} did not end"
    said = Tasks.decode_log(api.nodes("pve").tasks(upid).log.get())
    assert ended["exitstatus"] == wanted, (ended, said)
    assert said.splitlines()[-1] == ("TASK OK" if wanted == "OK" else f"TASK ERROR: {wanted}"), said


def refused(status: int, reason: str, errors: dict[str, Any] | None, call: Any, *args: Any, **params: Any) -> None:
    caught: Any = None
    try:
        call(*args, **params)
    except ResourceException as error:
        caught = error
    assert caught is not None, f"{reason} was expected"
    assert (caught.status_code, caught.content, caught.errors) == (status, reason, errors), caught


def create(api: Any, vmid: int, **more: Any) -> None:
    given = {"rootfs": "local-lvm:1", "mp0": "local-lvm:1,mp=/data,backup=1", "features": "nesting=1", **more}
    base = GIVEN["PROXMOX_BASE"]
    done(api, api.nodes("pve").lxc.post(vmid=vmid, ostemplate=base, hostname=f"ct{vmid}", unprivileged=1, **given))


def logins() -> None:
    """Log in with a token and with passwords, and be refused."""
    assert by_token().version.get()["release"] == "9.2"
    root = by_password()
    ticket, csrf = root.get_tokens()
    assert ticket.startswith("PVE:root@pam:"), ticket
    assert csrf, csrf
    # Only root@pam itself, not its token, may mount a directory of the node.
    create(by_token(), 600)
    config = by_token().nodes("pve").lxc(600).config
    only_root = "Permission check failed (mount point type bind is only allowed for root@pam)"
    refused(403, only_root, None, config.put, mp1="/srv/x,mp=/x")
    root.nodes("pve").lxc(600).config.put(mp1="/srv/x,mp=/x")
    # A ticket renews itself.
    assert connect(user="root@pam", password=ticket).version.get()["version"]
    # A ticket without its second half, which protects against cross-site requests, cannot change anything.
    session = root._store["session"]
    session.auth.csrf_prevention_token = "00000000:wrong"
    assert root.version.get()["release"] == "9.2"
    wrong = {"errors": b""}  # what proxmoxer makes of an answer without a body
    refused(401, "Permission denied - invalid csrf token", wrong, root.nodes("pve").lxc(600).config.put, memory=99)
    session.auth.pve_auth_ticket = ticket[:-4] + "AAA="
    refused(401, "permission denied - invalid PVE ticket", wrong, root.version.get)
    said = ""
    try:
        connect(user="root@pam", password="wrong")
    except AuthenticationError as error:
        said = str(error)
    assert said.endswith("/access/ticket code: 401"), said


def containers() -> None:
    """Create, start, configure, grow, snapshot, roll back, clone and delete a container."""
    api = by_token()
    create(api, 601, tags="b;a", memory=256)
    lxc = api.nodes("pve").lxc
    ct = lxc(601)
    done(api, ct.status.start.post())
    assert ct.status.current.get()["status"] == "running"
    ct.config.put(memory=512, description="from proxmoxer")
    config = ct.config.get()
    assert (config["memory"], config["tags"], config["hostname"]) == (512, "a;b", "ct601"), config
    done(api, ct.resize.put(disk="mp0", size="+1G"))
    assert ct.config.get()["mp0"].endswith("size=2G"), ct.config.get()["mp0"]
    done(api, ct.snapshot.post(snapname="before", description="saved"))
    assert {entry["name"] for entry in ct.snapshot.get()} == {"before", "current"}
    ct.config.put(memory=768)
    done(api, ct.snapshot("before").rollback.post())
    assert ct.config.get()["memory"] == 512
    done(api, ct.snapshot("before").delete())
    done(api, ct.clone.post(newid=602, full=1, hostname="copy"))
    assert lxc(602).config.get()["hostname"] == "copy"
    assert {entry["vmid"] for entry in lxc.get()} == {601, 602}
    tasks = api.nodes("pve").tasks.get(vmid=601, limit=100)
    assert {"vzcreate", "vzstart", "vzsnapshot", "vzrollback", "vzdelsnapshot", "vzclone"} <= {t["type"] for t in tasks}
    for vmid in (601, 602):
        done(api, lxc(vmid).delete(force=1, purge=1))
    assert lxc.get() == []


def backups() -> None:
    """Back a container up, restore it under another number, and prune."""
    api = by_token()
    create(api, 603)
    node, local = api.nodes("pve"), api.nodes("pve").storage("local")
    for _ in range(3):
        done(api, node.vzdump.post(vmid=603, storage="local", mode="stop", compress="zstd"))
        time.sleep(1.1)  # the name of a backup has its second
    saved = local.content.get(content="backup", vmid=603)
    assert len(saved) == 3, saved
    newest = max(saved, key=lambda entry: entry["ctime"])["volid"]
    assert "hostname: ct603" in node.vzdump.extractconfig.get(volume=newest)
    done(api, node.lxc.post(vmid=604, ostemplate=newest, restore=1, storage="local-lvm"))
    assert node.lxc(604).config.get()["hostname"] == "ct603"
    kept = local.prunebackups.get(vmid=603, **{"prune-backups": "keep-last=1"})
    assert sorted(entry["mark"] for entry in kept) == ["keep", "remove", "remove"], kept
    done(api, local.prunebackups.delete(vmid=603, **{"prune-backups": "keep-last=1"}))
    assert [entry["volid"] for entry in local.content.get(content="backup")] == [newest]
    done(api, local.content(newest).delete())
    assert local.content.get(content="backup") == []


def pools() -> None:
    """Manage a pool by its path, as older clients do, and by a parameter."""
    api = by_token()
    create(api, 605)
    api.pools.post(poolid="lab", comment="tests")
    api.pools("lab").put(vms="605", storage="local")
    api.pools.put(poolid="lab", comment="changed")
    by_path, (by_query,) = api.pools("lab").get(), api.pools.get(poolid="lab")
    assert by_query["comment"] == by_path["comment"] == "changed"
    assert {member["id"] for member in by_path["members"]} == {"lxc/605", "storage/pve/local"}, by_path
    assert [member["type"] for member in api.pools.get(poolid="lab", type="storage")[0]["members"]] == ["storage"]
    full = "delete pool failed: pool 'lab' is not empty (contains VM 605)"
    refused(500, full, None, api.pools("lab").delete)
    api.pools("lab").put(vms="605", storage="local", delete=1)
    api.pools.delete(poolid="lab")
    assert "lab" not in {pool["poolid"] for pool in api.pools.get()}


def accounts() -> None:
    """Manage a user, who then logs in with a password and sees what the role allows."""
    api = by_token()
    api.access.groups.post(groupid="readers")
    api.access.roles.post(roleid="Reader", privs="VM.Audit,Pool.Audit")
    api.access.users.post(userid="eve@pve", password="long-enough", groups="readers", comment="reads")
    api.access.acl.put(path="/vms", roles="Reader", groups="readers")
    assert {
        "path": "/vms",
        "ugid": "readers",
        "type": "group",
        "roleid": "Reader",
        "propagate": 1,
    } in api.access.acl.get()
    assert api.access.roles("Reader").get() == {"VM.Audit": 1, "Pool.Audit": 1}
    assert api.access.users("eve@pve").get()["groups"] == ["readers"]
    create(api, 606)
    eve = connect(user="eve@pve", password="long-enough")
    assert eve.nodes("pve").lxc(606).config.get()["hostname"] == "ct606"
    denied = "Permission check failed (/vms/606, VM.PowerMgmt)"
    refused(403, denied, None, eve.nodes("pve").lxc(606).status.start.post)
    made = eve.access.users("eve@pve").token("mine").post(privsep=0)
    again = connect(user="eve@pve", token_name="mine", token_value=made["value"])
    assert again.access.permissions.get()["/vms"] == {"VM.Audit": 1, "Pool.Audit": 1}
    changed = {"userid": "eve@pve", "password": "another-one"}
    needed = {"confirmation-password": "password is required to modify user"}
    refused(400, "Parameter verification failed.", needed, eve.access.password.put, **changed)
    eve.access.password.put(**changed, **{"confirmation-password": "long-enough"})
    connect(user="eve@pve", password="another-one")
    assert {realm["realm"] for realm in eve.access.domains.get()} == {"pam", "pve"}
    api.access.users("eve@pve").delete()
    refused(401, "Authentication failed!", {"errors": b""}, again.version.get)
    refused(500, "no such user ('eve@pve')", None, api.access.users("eve@pve").get)


def storages() -> None:
    """List storages and their content, define one, and upload a template to it."""
    api = by_token()
    assert {entry["storage"] for entry in api.storage.get()} == {"local", "local-lvm"}
    api.storage.post(storage="extra", type="dir", path="/mnt/extra", content="vztmpl,rootdir,images")
    assert api.storage("extra").get()["path"] == "/mnt/extra"
    missing = "missing value for required option 'path'"
    refused(500, missing, None, api.storage.post, storage="more", type="dir")
    local = api.nodes("pve").storage
    assert {entry["storage"] for entry in local.get(content="vztmpl")} == {"local", "extra"}
    with open(GIVEN["PROXMOX_ARCHIVE"], "rb") as archive:  # noqa: PTH123 - proxmoxer wants an open file
        done(api, local("extra").upload.post(content="vztmpl", filename=archive))
    assert [entry["volid"] for entry in local("extra").content.get()] == ["extra:vztmpl/tiny.tar.gz"]
    create(api, 607, rootfs="extra:1", mp0="local-lvm:1,mp=/data")
    volumes = local("extra").content.get(vmid=607)
    assert [entry["volid"] for entry in volumes] == ["extra:607/vm-607-disk-0.raw"], volumes
    done(api, api.nodes("pve").lxc(607).delete())
    api.storage("extra").put(disable=1)
    assert local.get(storage="extra")[0]["active"] == 0
    api.storage("extra").delete()
    refused(500, "storage 'extra' does not exist", None, api.storage("extra").get)


def errors() -> None:
    """Get Proxmox's own messages as errors of proxmoxer."""
    api = by_token()
    lxc = api.nodes("pve").lxc
    gone = "Configuration file 'nodes/pve/lxc/999.conf' does not exist"
    refused(500, gone, None, lxc(999).config.get)
    bad = "Parameter verification failed."
    wrong = {"vmid": "invalid format - value does not look like a valid VM ID\n"}
    refused(400, bad, wrong, api.cluster.nextid.get, vmid=5)
    refused(501, "Method 'GET /nosuch' not implemented", None, api.nosuch.get)
    done(api, lxc(999).status.start.post(), gone)
    stranger = connect(user="root@pam", token_name="sandbox", token_value="wrong")
    refused(401, "Authentication failed!", {"errors": b""}, stranger.version.get)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
