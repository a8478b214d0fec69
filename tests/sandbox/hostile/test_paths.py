"""The sandbox, which runs as root, leaks no tokens to other users and writes to no path outside its state."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the sandbox is an extra: pip install 'paddock[sandbox]'")

import pvebox.methods  # noqa: F401 - fills the table of methods
from pvebox.api.errors import ApiError, OperationError, SandboxError
from pvebox.api.routes import api
from pvebox.cluster.assembly import assemble, memory_cluster
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.fixture import DEFAULT_TEMPLATE, default_fixture, parse_fixture
from pvebox.cluster.tasks import Task, Upid
from pvebox.console.console import Console
from pvebox.guests.config import CtConfig
from pvebox.runtime import base
from pvebox.runtime.contract import ArchiveOrder, ContainerSpec, Mount, VolumeRef
from pvebox.runtime.lxc import LxcRuntime, packing
from pvebox.runtime.lxc.containerroot import ContainerRoot
from pvebox.runtime.lxc.lxcconfig import render
from pvebox.runtime.lxc.mounts import is_mounted, mounted_below
from pvebox.runtime.lxc.names import FIRST_ID, RUN, Names
from pvebox.server import background, statedir
from pvebox.server.clean import clean, stop_sandbox
from pvebox.server.process import spawn, start_ticks

DEPLOY = "paddock@pve!deploy"
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user and mount disks")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Create a folder that every user of this machine may enter, like /srv."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-open-"))
    folder.chmod(0o755)
    yield folder
    for point in mounted_below(folder):
        subprocess.run(["umount", str(point)], check=True)
    shutil.rmtree(folder)


def refusal(work: Callable[[], object]) -> str:
    """Return the message with which a call is refused, or an empty text if it succeeds."""
    try:
        work()
    except (ApiError, SandboxError) as error:
        return str(error).strip()
    return ""


def idle_task() -> Task:
    return Task(Upid("pve", 1, 1, 1, "vzdump", "100", "root@pam"))


def sandbox(*words: str) -> str:
    """Run a command of the sandbox and return its stdout."""
    command = [sys.executable, "-m", "pvebox", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def a_sandbox_in_the_background(state: Path) -> Iterator[dict[str, Any]]:
    try:
        yield json.loads(sandbox("up", "--runtime", "memory", "--port", "0", "--state", str(state)))
    finally:
        sandbox("clean", "--state", str(state))


def read_as_nobody(top: Path) -> str:
    """Return the content of all files below a directory that another user can read."""
    program = (
        "import os, sys\n"
        "for folder, _, files in os.walk(sys.argv[1]):\n"
        "    for name in files:\n"
        "        try:\n"
        "            print(open(os.path.join(folder, name), errors='replace').read())\n"
        "        except OSError: pass\n"
    )
    command = ["/usr/bin/env", "python3", "-I", "-c", program, str(top)]
    done = subprocess.run(
        command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout


def secrets_of(ready: dict[str, Any]) -> list[str]:
    return [*ready["tokens"].values(), ready["control"]["key"]]


@as_root
def test_another_user_reads_neither_a_token_nor_the_control_key(open_folder: Path) -> None:
    with a_sandbox_in_the_background(open_folder / "state") as ready:
        read = read_as_nobody(open_folder)
    leaked = [secret for secret in secrets_of(ready) if secret in read]
    assert not leaked, f"another user of this machine read {len(leaked)} secrets of root's sandbox"


def test_the_log_of_the_server_has_no_secrets_in_it(tmp_path: Path) -> None:
    with a_sandbox_in_the_background(tmp_path / "state") as ready:
        log = (tmp_path / "state/server.log").read_text()
        mode = stat.S_IMODE((tmp_path / "state/server.log").stat().st_mode)
    leaked = [secret for secret in secrets_of(ready) if secret in log]
    assert not leaked, f"the log has {len(leaked)} secrets in it"
    assert mode == 0o600, f"the log is readable for others: {mode:o}"


def test_a_log_redirected_to_a_file_has_no_secrets_in_it(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    command = [sys.executable, "-m", "pvebox", "serve", "--runtime", "memory", "--port", "0"]
    with log.open("wb") as output:
        server = subprocess.Popen([*command, "--state", str(state)], stdout=output)
    try:
        for _ in range(400):
            if log.read_text().endswith("\n"):
                break
            threading.Event().wait(0.05)
        ready = json.loads((state / "ready.json").read_text())
        assert stat.S_IMODE((state / "ready.json").stat().st_mode) == 0o600
    finally:
        server.terminate()
        server.wait(20)
    leaked = [secret for secret in secrets_of(ready) if secret in log.read_text()]
    assert not leaked, f"the log has {len(leaked)} secrets in it"
    assert json.loads(log.read_text())["url"] == ready["url"]


def test_an_existing_state_directory_is_closed_to_other_users(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    statedir.prepare(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700, "other users may enter the state directory"
    state.chmod(0o777)
    memory_cluster(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700, "other users may enter an existing state directory"


@as_root
def test_a_state_directory_of_another_user_is_refused(open_folder: Path) -> None:
    state = open_folder / "state"
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    said = refusal(lambda: statedir.prepare(state))
    assert "belongs to another user" in said, "root's tokens and disks went into a directory of another user"
    (state / ".pvebox").touch()
    with pytest.raises(SandboxError, match="belongs to another user"):
        clean(state)


@as_root
def test_down_does_not_kill_a_process_named_in_another_users_pid_file(open_folder: Path) -> None:
    state = open_folder / "state"
    state.mkdir()
    bystander = subprocess.Popen(["sleep", "60"])
    (state / "server.pid").write_text(f"{bystander.pid} {start_ticks(bystander.pid)}\n")
    os.chown(state, NOBODY, NOBODY)
    try:
        refusal(lambda: stop_sandbox(state))
        assert bystander.poll() is None, "root killed a process that another user chose"
    finally:
        bystander.kill()
        bystander.wait()


@as_root
def test_a_state_directory_that_another_user_can_replace_is_refused(open_folder: Path) -> None:
    os.chown(open_folder, NOBODY, NOBODY)
    said = refusal(lambda: statedir.prepare(open_folder / "state"))
    assert "can be replaced by another user" in said, "another user can put a link where root's server writes"


def test_a_link_is_refused_as_state_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")
    said = refusal(lambda: statedir.prepare(tmp_path / "state"))
    assert not list((tmp_path / "real").iterdir()), "the sandbox followed a link to its state directory"
    assert "is a link" in said


# --- commands on the node's console


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return memory_cluster(tmp_path / "state")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Create a directory of the host, outside the sandbox's state."""
    path = tmp_path / "canary"
    path.mkdir(mode=0o750)
    (path / "file").write_text("the host's own")
    return path


def up_to(path: Path) -> str:
    return "/srv/" + "../" * 20 + str(path).lstrip("/")


@pytest.mark.parametrize("command", [("mkdir",), ("mkdir", "-p")], ids=["mkdir", "mkdir -p"])
def test_mkdir_at_the_console_stays_in_the_nodes_filesystem(
    cluster: Cluster, canary: Path, command: tuple[str, ...]
) -> None:
    said = Console(cluster).run(["mkdir", "-p", "/srv"])
    assert said.code == 0, said
    said = Console(cluster).run([*command, up_to(canary / "made")])
    assert not (canary / "made").exists(), "root of the sandbox made a directory on the host"
    assert said.code != 0


@pytest.mark.parametrize("entry", ["file", "link"])
def test_mkdir_at_the_console_keeps_what_has_the_name_already(cluster: Cluster, canary: Path, entry: str) -> None:
    assert Console(cluster).run(["mkdir", "-p", "/srv"]).code == 0
    assert Console(cluster).run(["mkdir", "-p", "/srv"]).code == 0
    assert "File exists" in Console(cluster).run(["mkdir", "/srv"]).err
    there = cluster.runtime.host_path("pve", "/srv") / "a"
    if entry == "link":
        there.symlink_to(canary)
    else:
        there.touch()
    said = Console(cluster).run(["mkdir", "-p", "/srv/a"])
    assert (said.code, said.err) == (1, "mkdir: File exists: a\n")


@as_root
def test_chown_at_the_console_stays_in_the_nodes_filesystem(cluster: Cluster, canary: Path) -> None:
    Console(cluster).run(["mkdir", "-p", "/srv"])
    said = Console(cluster).run(["chown", "-R", f"{NOBODY}:{NOBODY}", up_to(canary)])
    owners = {path.stat().st_uid for path in (canary, canary / "file")}
    assert owners == {0}, "root of the sandbox gave files of the host to another user"
    assert said.code != 0


@as_root
@pytest.mark.parametrize("where", ["/srv/shared/link", "/srv/shared/link/file"])
def test_the_console_does_not_follow_a_link_created_by_a_guest(cluster: Cluster, canary: Path, where: str) -> None:
    console = Console(cluster)
    console.run(["mkdir", "-p", "/srv/shared"])
    # A container that has this directory of the node mounted can create the link.
    (cluster.runtime.host_path("pve", "/srv/shared") / "link").symlink_to(canary)
    console.run(["chown", "-R", f"{NOBODY}:{NOBODY}", where])
    console.run(["mkdir", "-p", "/srv/shared/link/made"])
    listed = console.run(["ls", "/srv/shared/link"]).out
    assert {path.stat().st_uid for path in (canary, canary / "file")} == {0}, "a file of the host changed its owner"
    assert not (canary / "made").exists(), "root made a directory on the host"
    assert listed != "file\n", "a directory of the host was listed"


def test_push_does_not_read_a_file_of_the_host(cluster: Cluster, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[bytes] = []
    monkeypatch.setattr(
        type(cluster.runtime.containers), "push", lambda _self, _spec, _path, content, _mode: pushed.append(content)
    )
    cluster.configs.put(100, "pve", "hostname: bee\nrootfs: local-lvm:vm-100-disk-0,size=1G\n")
    said = Console(cluster).run(["pct", "push", "100", str(canary / "file"), "/root/file"])
    assert not pushed, f"a container got a file of the host: {pushed}"
    assert said.code != 0


# --- names in requests


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Cluster]:
    """Create a node with real volumes and files, and without a network."""
    if os.geteuid() != 0:
        pytest.skip("only root can create a node with real disks")
    state = tmp_path / "state"
    statedir.prepare(state)
    (state / "cluster.json").write_text("{}")
    fixture = parse_fixture(default_fixture())
    runtime = LxcRuntime(state, {"pve": ("vmbr0",)}, "10.255.254.0/24")
    yield assemble(state, fixture, runtime)
    runtime.close()
    for point in mounted_below(Names(state).run):
        subprocess.run(["umount", str(point)], check=True)
    shutil.rmtree(RUN / Names(state).short_id)


OUT = "../" * 5  # from a directory beside the volumes to the parent of the state directory


def allocate(cluster: Cluster, storage: str, name: str) -> object:
    """Request a volume with a name, using a deployer's token."""
    asked = {"vmid": "100", "filename": name, "size": "4M"}
    return api.perform(cluster, DEPLOY, "POST", f"/nodes/pve/storage/{storage}/content", asked)


@pytest.mark.parametrize("name", [f"vm-100-/{OUT}canary/disk", f"vm-100-x/../{OUT[3:]}canary/disk", "vm-100-a/b"])
def test_a_token_cannot_allocate_a_volume_outside_the_state(on_disk: Cluster, canary: Path, name: str) -> None:
    before = sorted(canary.parent.rglob("*"))
    said = refusal(lambda: allocate(on_disk, "local-lvm", name))
    made = [str(path) for path in sorted(canary.parent.rglob("*")) if path not in before]
    assert not made, f"a deployer's token wrote {made}"
    assert "Invalid path for Logical Volume" in said


@pytest.mark.parametrize("file", ["../../../../canary/disk.raw", "x/../../disk.raw", "vm-100-../../disk.raw"])
def test_a_token_cannot_allocate_an_image_file_outside_the_state(on_disk: Cluster, canary: Path, file: str) -> None:
    before = sorted(canary.parent.rglob("*"))
    said = refusal(lambda: allocate(on_disk, "local", file))
    made = [str(path) for path in sorted(canary.parent.rglob("*")) if path not in before]
    assert not made, f"a deployer's token wrote {made}"
    assert said == f"unable to parse volume filename '{file}'"


def test_a_volume_id_cannot_name_a_file_outside_the_state(on_disk: Cluster, canary: Path) -> None:
    (canary / "disk.img").write_bytes(b"\0" * 4096)
    climbing = f"vm-100-/{OUT}canary/disk"
    (on_disk.runtime.host_path("pve", "/x").parents[2] / "volumes/pve/local-lvm/vm-100-").mkdir(parents=True)
    path = f"/nodes/pve/storage/local-lvm/content/{climbing}"
    said = refusal(lambda: on_disk.tasks.wait(api.perform(on_disk, "root@pam", "DELETE", path, {}), 10))
    assert (canary / "disk.img").exists(), "a request deleted a file of the host"
    assert said == f"lvm name '{climbing}' contains illegal characters"
    assert refusal(lambda: api.perform(on_disk, DEPLOY, "GET", path, {})) == said


@pytest.mark.parametrize(
    "ref",
    [
        VolumeRef("pve", "local-lvm", f"x/{OUT}canary/file"),
        VolumeRef("..", "..", "canary/file"),
        VolumeRef("pve", f"{OUT}", "canary/file"),
        VolumeRef("pve", "/", "file"),
        VolumeRef("pve", "local-lvm", "a\0b"),
    ],
)
def test_a_volume_reference_cannot_name_a_path_outside_the_state(tmp_path: Path, ref: VolumeRef) -> None:
    names = Names(tmp_path / "state")
    for where in (names.image, names.mount_point):
        try:
            found = where(ref)
        except ApiError:
            continue
        pytest.fail(f"{ref} became {found}")


@pytest.mark.parametrize(("kind", "name"), [("nodes", "../../pve"), ("storages", "../x"), ("storages", "a/b")])
def test_a_fixture_with_a_path_as_a_name_is_refused(kind: str, name: str) -> None:
    data = default_fixture()
    data[kind] = {name: next(iter(data[kind].values()))}
    assert refusal(lambda: parse_fixture(data)), f"{name!r} was accepted as a name"


def test_a_mount_path_cannot_add_a_line_to_the_lxc_configuration(tmp_path: Path) -> None:
    mount = Mount("mp0", VolumeRef("pve", "local-lvm", "vm-100-disk-1"), "/data\nlxc.hook.pre-start = /evil")
    spec = ContainerSpec(100, "pve", CtConfig(), [mount])
    try:
        text = render(Names(tmp_path / "state"), spec, Path("/root"), [(Path("/source"), mount)], nesting=False)
    except OperationError:
        return
    hooks = [line for line in text.splitlines() if line.startswith("lxc.hook")]
    assert not hooks, f"a value became a program that root runs: {hooks}"


# --- a guest's root filesystem


@as_root
@pytest.mark.parametrize("path", ["/../canary/file", "/etc/../../canary/file"])
def test_a_file_for_a_guest_is_not_written_outside_its_root(tmp_path: Path, canary: Path, path: str) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    said = refusal(lambda: ContainerRoot(tmp_path / "root").write(path, "hostile"))
    assert (canary / "file").read_text() == "the host's own", "a file of the host was overwritten"
    assert "leads out" in said


def test_reading_a_named_pipe_in_a_guests_root_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/hosts")
    read: list[str | None] = []
    reader = threading.Thread(target=lambda: read.append(ContainerRoot(tmp_path).read("/etc/hosts")), daemon=True)
    reader.start()
    reader.join(5)
    waits = reader.is_alive()
    if waits:
        os.close(os.open(tmp_path / "etc/hosts", os.O_RDWR | os.O_NONBLOCK))
    assert not waits, "the server waits for ever for a pipe that a guest created"
    assert read == [None]


def volume(cluster: Cluster, name: str) -> VolumeRef:
    """Create a small volume with a filesystem."""
    ref = VolumeRef("pve", "local-lvm", name)
    cluster.runtime.volumes.allocate(ref, 16 << 20)
    cluster.runtime.volumes.format(ref)
    return ref


def needs_loop_devices() -> None:
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no loop devices to mount disks with")


def test_another_user_cannot_read_a_mounted_disk(on_disk: Cluster) -> None:
    needs_loop_devices()
    runtime: Any = on_disk.runtime
    point = runtime.volumes.hold(volume(on_disk, "vm-100-disk-0"), "test")
    try:
        (point / "memory").write_text("what the agent knows")
        read = read_as_nobody(runtime.names.run)
    finally:
        runtime.volumes.release("test")
    assert "what the agent knows" not in read, "another user of this machine read a guest's disk"


def test_a_backup_does_not_mount_over_a_directory_of_the_host(on_disk: Cluster, canary: Path, tmp_path: Path) -> None:
    needs_loop_devices()
    runtime: Any = on_disk.runtime
    root, data = volume(on_disk, "vm-100-disk-0"), volume(on_disk, "vm-100-disk-1")
    (runtime.volumes.hold(root, "test") / "data").symlink_to(canary)
    runtime.volumes.release("test")
    spec = ContainerSpec(100, "pve", CtConfig(), [Mount("rootfs", root, "/"), Mount("mp0", data, "/data")])
    order = ArchiveOrder(spec, tmp_path / "state/backup.tar", "/var/lib/vz/dump/backup.tar", "")
    refusal(lambda: runtime.containers.archive(order, idle_task(), print))
    covered = is_mounted(canary)
    if covered:
        subprocess.run(["umount", str(canary)], check=True)
    assert not covered, "a link in a guest's root made root mount a disk over a directory of the host"


def test_a_link_does_not_give_a_guest_a_directory_of_the_host(on_disk: Cluster, canary: Path) -> None:
    runtime: Any = on_disk.runtime
    shared = runtime.host_path("pve", "/srv/shared")
    shared.mkdir(parents=True)
    (shared / "link").symlink_to(canary)
    source = runtime.names.hosts / "pve/srv/shared/link"
    spec = ContainerSpec(100, "pve", CtConfig(), [Mount("mp0", source, "/data")])
    refusal(lambda: runtime.containers._hold_mounts(spec, "ct100"))
    seen = [str(path.name) for path in (runtime.names.mounts / ".bind/100-mp0").glob("*")]
    assert seen == [], f"a container got a directory of the host: {seen}"


def test_another_user_cannot_read_the_configuration_while_a_backup_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root packs backups")
    (tmp_path / "root").mkdir()
    read: list[str] = []

    def watched(*argv: str, **more: Any) -> Any:
        trees = argv[argv.index("mapped") + 3 : argv.index("--")]
        read.append(read_as_nobody(Path(trees[0])))
        return spawn(*argv, **more)

    monkeypatch.setattr(packing, "spawn", watched)
    spec = ContainerSpec(100, "pve", CtConfig(), [Mount("rootfs", VolumeRef("pve", "x", "y"), "/")])
    order = ArchiveOrder(spec, tmp_path / "backup.tar", "/var/lib/vz/dump/backup.tar", "description: private\n")
    packing.pack(tmp_path / "root", order, idle_task(), print)
    assert read == [""], f"another user read the configuration of a container: {read}"


@pytest.mark.parametrize("volid", [f"local-lvm:vm-100-/{OUT}canary/disk", "local:100/vm-100-../../../disk.raw"])
def test_a_volume_id_that_leads_to_a_parent_directory_is_refused(cluster: Cluster, volid: str) -> None:
    assert refusal(lambda: cluster.locate(volid, "pve")), f"{volid} was accepted as the name of a volume"


@pytest.mark.parametrize("name", ["vztmpl/../../../../canary/file", "../file", "/nonexistent/file", "snippets/.."])
def test_a_file_name_that_leads_outside_the_storage_is_refused(on_disk: Cluster, name: str) -> None:
    for work in (on_disk.runtime.file, on_disk.runtime.archived_config, on_disk.runtime.remove_file):
        said = refusal(lambda work=work: work("pve", "local", name))  # type: ignore[misc]
        assert "leads out" in said, f"{work.__name__} accepted {name} as a path"


# --- the cache of templates, which all containers are made from


def template_in_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ask for the base template with this cache directory. The template is an empty file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(base, "_build", lambda archive: archive.touch())
    return base.ensure_base(DEFAULT_TEMPLATE)


def test_other_users_cannot_enter_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = template_in_cache(tmp_path, monkeypatch)
    assert archive.is_file()
    assert stat.S_IMODE(archive.parent.stat().st_mode) == 0o700


@as_root
def test_root_does_not_use_the_cache_of_another_user(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # sudo can keep HOME or XDG_CACHE_HOME of the user.
    os.chown(open_folder, NOBODY, NOBODY)
    said = refusal(lambda: template_in_cache(open_folder, monkeypatch))
    assert "can be replaced by another user" in said, "another user can choose the template of root's containers"


@as_root
def test_root_does_not_follow_a_link_of_another_user_to_the_cache(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = open_folder / "own", open_folder / "shared"
    own.mkdir()
    shared.mkdir()
    # Another user may create entries here and change only their own. In a directory like /tmp the kernel would refuse.
    os.chown(shared, 0, NOBODY)
    shared.chmod(0o1775)
    (shared / "cache").symlink_to(own)
    os.lchown(shared / "cache", NOBODY, NOBODY)
    said = refusal(lambda: template_in_cache(shared / "cache", monkeypatch))
    assert "can be replaced by another user" in said, "another user can redirect the link after the check"


def test_a_link_of_the_same_user_to_the_cache_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "large")
    assert template_in_cache(tmp_path / "cache", monkeypatch).resolve().is_relative_to(tmp_path / "large")


def test_a_link_in_place_of_the_templates_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = template_in_cache(tmp_path / "cache", monkeypatch)
    archive.parent.rename(tmp_path / "elsewhere")
    archive.parent.symlink_to(tmp_path / "elsewhere")
    assert "is a link" in refusal(lambda: template_in_cache(tmp_path / "cache", monkeypatch))


# --- directories that all sandboxes of an account or of the machine use


@as_root
def test_other_users_can_pass_the_run_directory_but_not_read_it(on_disk: Cluster) -> None:
    runtime: Any = on_disk.runtime
    facts = {path: path.stat() for path in (RUN, runtime.names.run)}
    assert {each.st_uid for each in facts.values()} == {0}
    assert stat.S_IMODE(facts[RUN].st_mode) == 0o711
    assert stat.S_IMODE(facts[runtime.names.run].st_mode) == 0o710
    assert facts[runtime.names.run].st_gid == FIRST_ID, "another group than the containers' root may enter"


def test_the_default_directories_are_those_of_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert background.default_state() == tmp_path / ".local/state/pvebox"
    assert base.cache_directory() == tmp_path / ".cache/pvebox"
