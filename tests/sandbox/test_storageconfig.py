"""Definitions of storages, uploads to them, and settings of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from pvebox.cluster.assembly import memory_cluster
from sandbox.inprocess import Api, Json

ROOT = "root@pam!sandbox"
EXTRA = {"storage": "extra", "type": "dir", "path": "/mnt/extra"}
CERTAIN = {"content-type": "multipart/form-data; boundary=cut"}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def root(api: Api, method: str, path: str, /, **params: Json) -> Json:
    answer = api.ask(method, path, ROOT, **params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_new_storage_can_be_used_at_once_and_after_a_restart(api: Api) -> None:
    assert root(api, "POST", "/storage", **EXTRA, content="rootdir,vztmpl") == {"storage": "extra", "type": "dir"}
    shown = root(api, "GET", "/storage/extra")
    assert {**shown, "digest": ""} == {**EXTRA, "content": "rootdir,vztmpl", "digest": ""}
    assert api.create(100, rootfs="extra:1").exitstatus == "OK"
    assert "extra" in memory_cluster(api.directory).storages


SLOW = {
    "dir": {"path": "/mnt/slow"},
    "nfs": {"server": "nas", "export": "/volume"},
    "cifs": {"server": "nas", "share": "volume"},
    "lvm": {"vgname": "tank"},
}


@pytest.mark.parametrize("kind", [*SLOW, "lvmthin"])
def test_linked_clones_and_templates_are_as_the_type_of_the_storage_has_them(api: Api, kind: str) -> None:
    """pve-storage's volume_has_feature: Plugin.pm for files, LVMPlugin.pm, LvmThinPlugin.pm."""
    storage = "local-lvm" if kind == "lvmthin" else "slow"
    if kind in SLOW:
        root(api, "POST", "/storage", storage="slow", type=kind, content="rootdir", **SLOW[kind])
    assert api.create(100, rootfs=f"{storage}:1").exitstatus == "OK"
    container = "/nodes/pve/lxc/100"
    root(api, "POST", f"{container}/template")
    api.settle()
    if kind == "lvm":
        (task,) = [task for task in api.cluster.tasks.newest_first() if ":vztemplate:" in str(task.upid)]
        assert task.exitstatus == "Template feature is not available for 'slow:vm-100-disk-0'"
        assert "template" not in root(api, "GET", f"{container}/config")
        return
    assert root(api, "GET", f"{container}/config")["template"] == 1
    linked = kind == "lvmthin"
    assert root(api, "GET", f"{container}/feature", feature="clone") == {"hasFeature": int(linked)}
    answer = api.ask("POST", f"{container}/clone", ROOT, newid=101)
    base = "local-lvm:base-100-disk-0" if linked else "slow:100/base-100-disk-0.raw"
    refused = f"Linked clone feature for '{base}' is not available"
    assert (answer.status_code, answer.headers["x-pvebox-reason"]) == ((200, "OK") if linked else (500, refused))
    api.settle()
    assert api.task("POST", f"{container}/clone", newid=102, full=1, storage=storage).exitstatus == "OK"


def test_a_share_is_the_same_on_all_nodes(tmp_path: Path) -> None:
    api = Api(tmp_path / "two", nodes=("pve", "pve2"))
    root(api, "POST", "/storage", storage="nas", type="nfs", content="rootdir", **SLOW["nfs"])
    (shown,) = root(api, "GET", "/nodes/pve2/storage", storage="nas")
    assert (shown["type"], shown["shared"], shown["active"]) == ("nfs", 1, 1)
    assert root(api, "GET", "/storage/nas")["path"] == "/mnt/pve/nas"


def test_a_storage_has_two_kinds_of_content_unless_others_are_named(api: Api) -> None:
    root(api, "POST", "/storage", **EXTRA)
    assert root(api, "GET", "/storage/extra")["content"] == "images,rootdir"


def test_a_change_keeps_the_other_settings(api: Api) -> None:
    root(api, "POST", "/storage", **EXTRA, nodes="pve", **{"prune-backups": "keep-last=3"})
    digest = root(api, "GET", "/storage/extra")["digest"]
    root(api, "PUT", "/storage/extra", content="iso", disable=1, delete="prune-backups", digest=digest)
    shown = root(api, "GET", "/storage/extra")
    assert (shown["content"], shown["disable"], shown["nodes"]) == ("iso", 1, "pve")
    assert "prune-backups" not in shown
    reason = api.reason("PUT", "/storage/extra", ROOT, content="iso", digest=digest)
    modified = "detected modified configuration - file changed by other user? Try again."
    assert reason == f"update storage failed: {modified}"


def test_a_disabled_storage_is_listed_as_inactive_and_takes_no_volume(api: Api) -> None:
    root(api, "POST", "/storage", **EXTRA, content="rootdir", disable=1)
    (shown,) = root(api, "GET", "/nodes/pve/storage", storage="extra")
    assert (shown["enabled"], shown["active"]) == (0, 0)
    assert "storage 'extra' is disabled" in str(api.create(100, rootfs="extra:1").exitstatus)


def test_a_deleted_storage_leaves_no_acl_and_no_pool_member(api: Api) -> None:
    root(api, "POST", "/storage", **EXTRA)
    root(api, "PUT", "/pools/paddock", storage="extra")
    root(api, "PUT", "/access/acl", path="/storage/extra", roles="PVEAuditor", users="pooled@pve")
    root(api, "DELETE", "/storage/extra")
    assert not [entry for entry in api.cluster.access.acl if "extra" in entry.path]
    assert api.cluster.access.pools["paddock"].storages == set()
    assert "extra" not in memory_cluster(api.directory).storages


def test_the_storage_local_comes_back_with_its_defaults(api: Api) -> None:
    root(api, "DELETE", "/storage/local")
    shown = root(api, "GET", "/storage/local")
    assert (shown["content"], shown["prune-backups"]) == ("backup,images,iso,rootdir,snippets,vztmpl", "keep-all=1")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"storage": "local", "type": "dir", "path": "/x"},
            "create storage failed: storage ID 'local' already defined",
        ),
        ({"storage": "aa", "type": "dir"}, "missing value for required option 'path'"),
        ({"storage": "aa", "type": "dir", "path": "/x y"}, "illegal path for directory storage: /x y"),
        ({"storage": "aa", "type": "dir", "path": "/x", "vgname": "pve"}, "unexpected property 'vgname'"),
        ({"storage": "aa", "type": "lvmthin", "vgname": "pve"}, "missing value for required option 'thinpool'"),
        (
            {"storage": "aa", "type": "lvmthin", "vgname": "pve", "thinpool": "no"},
            "create storage failed: no such logical volume pve/no",
        ),
        (
            {"storage": "aa", "type": "dir", "path": "/x", "content": "none,iso"},
            "unable to combine 'none' with other content types",
        ),
        (
            {"storage": "aa", "type": "dir", "path": "/x", "is_mountpoint": "1"},
            "create storage failed: unable to activate storage 'aa' - directory is expected to be a mount point but is "
            "not mounted: '/x'",
        ),
        (
            {"storage": "aa", "type": "dir", "path": "/x", "create-base-path": "0"},
            "create storage failed: unable to activate storage 'aa' - directory '/x' does not exist or is unreachable",
        ),
        (
            {"storage": "aa", "type": "rbd", "pool": "x"},
            "create storage failed: pvebox has the storage types dir, nfs, cifs, lvm, lvmthin only",
        ),
        (
            {"storage": "aa", "type": "nfs", "server": "x"},
            "missing value for required option 'export'",
        ),
        (
            {"storage": "aa", "type": "lvm", "vgname": "vg0"},
            "create storage failed: no such volume group 'vg0'",
        ),
    ],
)
def test_a_wrong_definition_fails(api: Api, params: dict[str, str], message: str) -> None:
    answer = api.ask("POST", "/storage", ROOT, **params)
    assert (answer.status_code, answer.json()["message"]) == (500, f"{message}\n")
    assert set(api.cluster.storages) == {"local", "local-lvm"}


@pytest.mark.parametrize(
    ("method", "path", "params", "errors"),
    [
        ("POST", "/storage", {"storage": "a", "type": "dir"}, {"storage"}),
        ("POST", "/storage", {"storage": "aa", "type": "floppy"}, {"type"}),
        ("POST", "/storage", {**EXTRA, "content": "films"}, {"content"}),
        ("POST", "/storage", {**EXTRA, "path": "relative"}, {"path"}),
        ("PUT", "/storage/local", {"path": "/x"}, {"path"}),
        ("PUT", "/storage/local", {"prune-backups": "keep-last=-1"}, {"prune-backups"}),
    ],
)
def test_wrong_settings_are_named(api: Api, method: str, path: str, params: dict[str, str], errors: set[str]) -> None:
    answer = api.ask(method, path, ROOT, **params)
    assert (answer.status_code, set(answer.json()["errors"])) == (400, errors)


@pytest.mark.parametrize(
    ("method", "path", "where"),
    [
        ("POST", "/storage", "/storage, Datastore.Allocate"),
        ("PUT", "/storage/local", "/storage, Datastore.Allocate"),
        ("DELETE", "/storage/local", "/storage, Datastore.Allocate"),
        ("POST", "/nodes/pve/storage/local/upload", "/storage/local, Datastore.AllocateTemplate"),
        ("POST", "/nodes/pve/aplinfo", "/storage/, Datastore.AllocateTemplate"),
        ("GET", "/nodes/pve/dns", "/nodes/pve, Sys.Audit"),
        ("PUT", "/nodes/pve/dns", "/nodes/pve, Sys.Modify"),
        ("DELETE", "/nodes/pve/subscription", "/nodes/pve, Sys.Modify"),
        ("GET", "/cluster/backup", "/, Sys.Audit"),
        ("GET", "/cluster/backup/x", "/, Sys.Audit"),
        ("POST", "/cluster/backup", "/, Sys.Modify"),
        ("PUT", "/cluster/backup/x", "/, Sys.Modify"),
        ("DELETE", "/cluster/backup/x", "/, Sys.Modify"),
    ],
)
def test_a_caller_without_the_right_is_refused(api: Api, method: str, path: str, where: str) -> None:
    assert api.reason(method, path) == f"Permission check failed ({where})"


def upload(api: Api, name: str, content: str = "vztmpl", storage: str = "local", **more: str) -> Json:
    fields = {"content": content, **more}
    parts = [f'--cut\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    disposition = f'Content-Disposition: form-data; name="filename"; filename="{name}"'
    parts.append(f"--cut\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\nab\r\n\r\nc\r\n--cut--\r\n")
    secret = api.cluster.access.tokens[ROOT].secret
    sent = {"Authorization": f"PVEAPIToken={ROOT}={secret}", **CERTAIN}
    return api.post_body(f"/nodes/pve/storage/{storage}/upload", sent, "".join(parts).encode())


def test_an_uploaded_template_is_on_the_storage(api: Api) -> None:
    answer = upload(api, "../o dd.tar.gz")
    task = api.cluster.tasks.wait(answer.json()["data"], 10)
    assert task.exitstatus == "OK", task.log
    assert api.cluster.runtime.files("pve", "local")["vztmpl/o_dd.tar.gz"][0] == len("ab\r\n\r\nc")


def test_an_upload_with_the_wrong_checksum_stores_nothing(api: Api) -> None:
    answer = upload(api, "x.tar.gz", checksum="00", **{"checksum-algorithm": "sha256"})
    task = api.cluster.tasks.wait(answer.json()["data"], 10)
    assert str(task.exitstatus).startswith("checksum mismatch: got '")
    assert "vztmpl/x.tar.gz" not in api.cluster.runtime.files("pve", "local")


@pytest.mark.parametrize(
    ("name", "content", "storage", "said"),
    [
        ("x.txt", "vztmpl", "local", "Parameter verification failed."),
        ("x.tar.gz", "vztmpl", "local-lvm", "can't upload to storage type 'lvmthin'"),
        ("x.tar.gz", "films", "local", "Parameter verification failed."),
    ],
)
def test_a_wrong_upload_is_rejected(api: Api, name: str, content: str, storage: str, said: str) -> None:
    assert upload(api, name, content, storage).headers["x-pvebox-reason"] == said


def test_a_request_cannot_name_a_file_of_this_machine_as_its_upload(api: Api) -> None:
    given = {"content": "vztmpl", "filename": "x.tar.gz"}
    path = "/nodes/pve/storage/local/upload"
    assert api.ask("POST", path, ROOT, **given, tmpfilename="/etc/hostname").status_code == 400
    assert api.reason("POST", path, ROOT, **given) == "missing temporary file name"


def test_name_servers_are_replaced_and_outlast_a_restart(api: Api) -> None:
    root(api, "PUT", "/nodes/pve/dns", search="example.org", dns1="192.0.2.1")
    assert root(api, "GET", "/nodes/pve/dns") == {"search": "example.org", "dns1": "192.0.2.1"}
    assert memory_cluster(api.directory).dns["pve"] == {"search": "example.org", "dns1": "192.0.2.1"}
    assert api.ask("PUT", "/nodes/pve/dns", ROOT, search="x", dns1="nonsense").status_code == 400


def test_the_server_id_is_visible_to_auditors_only(api: Api) -> None:
    assert root(api, "GET", "/nodes/pve/subscription")["status"] == "notfound"
    assert "serverid" not in api.data("GET", "/nodes/pve/subscription")
