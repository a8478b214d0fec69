"""Requests that wait for a lock which another request or task holds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pvebox.cluster.tasks import Task
from pvebox.guests.configstore import LOCK_TIMEOUT
from pvebox.runtime.contract import Archive, ContainerSpec, Unpacked
from sandbox.inprocess import TEMPLATE, Api

CT = "/nodes/pve/lxc/500"
TIMEOUT = "can't lock file '/run/lock/lxc/pve-config-500.lock' - got timeout"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """A sandbox with the container 500, which has a snapshot."""
    api = Api(tmp_path / "state")
    assert api.create(500, mp0="local-lvm:1,mp=/memory").exitstatus == "OK"
    assert api.task("POST", f"{CT}/snapshot", snapname="one").exitstatus == "OK"
    return api


@contextlib.contextmanager
def _held(lock: AbstractContextManager[None]) -> Iterator[None]:
    """Hold a lock in another thread."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(5)
    try:
        yield
    finally:
        done.set()
        holder.join()


def test_proxmox_waits_ten_seconds() -> None:
    assert LOCK_TIMEOUT == 10


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("PUT", "/config", {"memory": 600}),
        ("PUT", "/snapshot/one/config", {"description": "x"}),
        ("POST", "/clone", {"newid": 600}),
        ("POST", "/template", {}),
        ("POST", "/move_volume", {"volume": "mp0", "storage": "local-lvm"}),
    ],
)
def test_these_requests_wait_for_the_lock_and_then_fail(
    api: Api, method: str, path: str, params: dict[str, Any]
) -> None:
    with _held(api.cluster.configs.lock(500)):
        answer = api.ask(method, CT + path, **params)
    assert (answer.status_code, answer.headers["x-pvebox-reason"]) == (500, TIMEOUT)


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("POST", "/status/start", {}),
        ("POST", "/snapshot", {"snapname": "two"}),
        ("DELETE", "/snapshot/one", {}),
        ("POST", "/snapshot/one/rollback", {}),
        ("PUT", "/resize", {"disk": "mp0", "size": "+1G"}),
        ("DELETE", "", {}),
    ],
)
def test_the_tasks_of_these_requests_wait_for_the_lock_and_then_fail(
    api: Api, method: str, path: str, params: dict[str, Any]
) -> None:
    with _held(api.cluster.configs.lock(500)):
        task = api.task(method, CT + path, **params)
    assert task.exitstatus == TIMEOUT
    assert task.log[0] == "trying to acquire lock..."


@pytest.mark.parametrize("path", ["/status/stop", "/status/shutdown", "/status/reboot", "/status/suspend"])
def test_a_running_container_is_not_stopped_while_its_lock_is_held(api: Api, path: str) -> None:
    api.task("POST", f"{CT}/status/start")
    with _held(api.cluster.configs.lock(500)):
        assert api.task("POST", CT + path).exitstatus == TIMEOUT
    assert api.cluster.runtime.containers.running(500)


def test_reading_needs_no_lock(api: Api) -> None:
    with _held(api.cluster.configs.lock(500)):
        for path in ("/config", "/status/current", "/snapshot", "/feature?feature=snapshot"):
            assert api.ask("GET", CT + path).status_code == 200


def test_a_request_goes_on_when_the_lock_is_released_in_time(api: Api) -> None:
    api.cluster.configs.lock_timeout = 5
    with _held(api.cluster.configs.lock(500)):
        upid = api.data("POST", f"{CT}/status/start")
        time.sleep(0.1)
    task = api.cluster.tasks.wait(upid)
    assert task.exitstatus == "OK"
    assert task.log[0] == "trying to acquire lock... OK"


def test_a_create_task_holds_the_lock_until_it_ends(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = api.cluster.runtime.containers
    unpacking, go_on = threading.Event(), threading.Event()
    populate = containers.populate

    def slow(spec: ContainerSpec, archive: Archive, task: Task) -> Unpacked:
        unpacking.set()
        go_on.wait(5)
        return populate(spec, archive, task)

    monkeypatch.setattr(containers, "populate", slow)
    params = {"vmid": 501, "ostemplate": TEMPLATE, "rootfs": "local-lvm:2"}
    upid = api.data("POST", "/nodes/pve/lxc", **params)
    assert unpacking.wait(5)
    timeout = TIMEOUT.replace("500", "501")
    assert api.reason("PUT", "/nodes/pve/lxc/501/config", memory=600) == timeout
    assert api.task("POST", "/nodes/pve/lxc/501/status/start").exitstatus == timeout
    assert api.reason("DELETE", "/nodes/pve/lxc/501") == "CT is locked (create)"
    assert api.data("GET", "/nodes/pve/lxc/501/config")["lock"] == "create"
    go_on.set()
    assert api.cluster.tasks.wait(upid).exitstatus is not None
    assert api.ask("PUT", "/nodes/pve/lxc/501/config", memory=600).status_code == 200


def test_rollback_and_deletion_of_snapshots_wait_for_a_migration(api: Api) -> None:
    with _held(api.cluster.configs.migration_lock(500)):
        rollback = api.task("POST", f"{CT}/snapshot/one/rollback")
        deletion = api.task("DELETE", f"{CT}/snapshot/one")
        assert api.task("DELETE", f"{CT}/snapshot/one", force=1).exitstatus == "OK"
    assert rollback.exitstatus == "can't lock file '/var/lock/pve-manager/pve-migrate-500' - got timeout"
    assert deletion.exitstatus == "Failed to obtain guest migration lock - replication running?"


def test_a_resize_is_checked_again_in_its_task(api: Api) -> None:
    api.cluster.configs.lock_timeout = 5
    with _held(api.cluster.configs.lock(500)):
        upids = [api.data("PUT", f"{CT}/resize", disk="mp0", size="3G") for _ in range(2)]
    ends = sorted(str(api.cluster.tasks.wait(upid).exitstatus) for upid in upids)
    assert ends == ["OK", "disk is already at specified size"]
