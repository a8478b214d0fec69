"""Fault injection and the root console."""

from __future__ import annotations

from pathlib import Path

import pytest

from pvebox.api.errors import SandboxError
from pvebox.cluster.faults import Rule
from pvebox.console.console import Console
from pvebox.server.http import ABORT
from sandbox.inprocess import TEMPLATE, Api


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


def test_an_injected_answer_is_given_the_requested_number_of_times(api: Api) -> None:
    api.rule("answer", "500:no quorum", path="/version", count=2)
    assert [api.ask("GET", "/version").status_code for _ in range(3)] == [500, 500, 200]


def test_an_injected_proxy_error_has_no_body(api: Api) -> None:
    api.rule("answer", "596")
    answer = api.ask("GET", "/version")
    assert (answer.status_code, answer.content) == (596, b"")


def test_a_request_whose_answer_is_lost_is_still_performed(api: Api) -> None:
    api.rule("lose", method="POST", path="/nodes/*/lxc")
    answer = api.ask("POST", "/nodes/pve/lxc", vmid=100, ostemplate=TEMPLATE, rootfs="local-lvm:2")
    assert ABORT in answer.headers
    for task in api.cluster.tasks.newest_first():
        task.ended.wait(5)
    assert api.cluster.configs.exists(100)


def test_a_lost_answer_may_be_a_status_of_the_proxy(api: Api) -> None:
    api.rule("lose", "596", method="POST", path="/nodes/*/lxc")
    answer = api.ask("POST", "/nodes/pve/lxc", vmid=100, ostemplate=TEMPLATE, rootfs="local-lvm:2")
    assert (answer.status_code, answer.content) == (596, b"")
    for task in api.cluster.tasks.newest_first():
        task.ended.wait(5)
    assert api.cluster.configs.exists(100)


def test_a_crashed_task_leaves_its_lock(api: Api) -> None:
    api.rule("crash-task", path="/nodes/*/lxc")
    task = api.create(100)
    assert task.exitstatus == "unexpected status"
    assert api.cluster.configs.load(100, "pve").options["lock"] == "create"
    assert api.reason("PUT", "/nodes/pve/lxc/100/config", cores=1) == "CT is locked (create)"


def test_tasks_end_with_injected_errors_and_warnings(api: Api) -> None:
    api.rule("fail-task", "the disk is on fire", path="*/status/start")
    api.rule("warn-task", "smoke", path="*/status/stop")
    api.create(100)
    assert api.task("POST", "/nodes/pve/lxc/100/status/start").exitstatus == "the disk is on fire"
    assert api.task("POST", "/nodes/pve/lxc/100/status/stop").exitstatus == "WARNINGS: 1"


def test_a_full_storage_allocates_no_volume(api: Api) -> None:
    api.cluster.full.add("local-lvm")
    assert "reached threshold" in str(api.create(100).exitstatus)
    assert api.cluster.configs.vmids() == []


def test_the_console_removes_a_lock_that_was_left_behind(api: Api) -> None:
    api.create(100)
    config = api.cluster.configs.load(100, "pve")
    config.options["lock"] = "backup"
    api.cluster.configs.save(100, "pve", config)
    assert api.reason("PUT", "/nodes/pve/lxc/100/config", cores=1) == "CT is locked (backup)"
    assert Console(api.cluster).run(["pct", "unlock", "100"]).code == 0
    assert api.ask("PUT", "/nodes/pve/lxc/100/config", cores=1).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "nonsense"},
        {"kind": "answer", "value": "x"},
        {"kind": "slow"},
        {"kind": "lose", "value": "x"},
        {"kind": "reset", "x": 1},
    ],
)
def test_an_invalid_fault_is_rejected_with_a_hint(wrong: dict[str, object]) -> None:
    with pytest.raises(SandboxError) as caught:
        Rule.from_json(wrong)
    assert caught.value.hint


def test_the_console_sets_options_that_no_token_may_set(api: Api) -> None:
    api.create(100)
    refused = api.reason("PUT", "/nodes/pve/lxc/100/config", "root@pam!sandbox", mp0="/srv/x,mp=/data")
    assert refused == "Permission check failed (mount point type bind is only allowed for root@pam)"
    console = Console(api.cluster)
    assert console.run(["pct", "set", "100", "-mp0", "/srv/x,mp=/data"]).code == 0
    assert console.run(["pct", "set", "100", "--features", "nesting=1,keyctl=1"]).code == 0
    assert api.data("GET", "/nodes/pve/lxc/100/config")["mp0"] == "/srv/x,mp=/data"
    assert "mp0: /srv/x,mp=/data\n" in console.run(["pct", "config", "100"]).out
    assert console.run(["pct", "start", "100"]).code == 0
    assert "running" in console.run(["pct", "list"]).out


def test_the_console_manages_roles_users_tokens_and_acls(api: Api) -> None:
    console = Console(api.cluster)
    assert console.run(["pveum", "role", "add", "R", "--privs", "VM.Audit,VM.Clone"]).code == 0
    assert console.run(["pveum", "user", "add", "bob@pve"]).code == 0
    assert console.run(["pveum", "acl", "modify", "/vms/100", "--roles", "R", "--users", "bob@pve"]).code == 0
    assert console.run(["pveum", "user", "token", "add", "bob@pve", "tk", "--privsep", "0"]).code == 0
    assert api.cluster.access.privileges("bob@pve!tk", "/vms/100") == {"VM.Audit": 1, "VM.Clone": 1}
    assert console.run(["pveum", "role", "add", "X", "--privs", "VM.Nonsense"]).code == 255


@pytest.mark.parametrize("argv", [[], ["reboot"], ["pct"], ["pct", "set"], ["pct", "set", "999", "-cores", "1"]])
def test_an_invalid_console_command_fails_with_a_message(api: Api, argv: list[str]) -> None:
    said = Console(api.cluster).run(argv)
    assert said.code != 0
    assert said.err
