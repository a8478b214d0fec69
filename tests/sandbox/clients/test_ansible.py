"""Ansible's collection community.proxmox drives the sandbox, unmodified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from levels import slow_proof
from sandbox.clients.installed import ROOT_PASSWORD, TOKEN, Clients, Server

pytestmark = [slow_proof]  # installs Ansible, and starts a Python process for every step

STORIES: Final = YAML(typ="safe").load(Path(__file__).parents[1] / "data/ansible.yaml")
_WORDS: Final = {"check", "first", "again", "fails", "expect", "as", "listed"}


def tasks_of(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a playbook for a step: in check mode, for real, and again."""
    (module,) = set(step) - _WORDS
    args = dict(step[module])
    if step.get("as") == "root":
        args |= {"api_user": "root@pam", "api_password": ROOT_PASSWORD}
    task = {f"community.proxmox.{module}": args, "register": "result"}
    name = f"{module} {json.dumps(step[module])}"
    if "fails" in step:
        wanted = "true" if step["fails"] == "any" else f"result.msg == {json.dumps(step['fails'])}"
        yield {"name": name, **task, "ignore_errors": True}
        yield _assertion(name, ["result is failed", wanted])
        return
    first = step.get("first", True)
    if step.get("check", True):
        yield {"name": f"{name} (check mode)", **task, "check_mode": True}
        yield _assertion(name, [_is_changed(first)])
    yield {"name": name, **task}
    yield _assertion(name, [_is_changed(first), *step.get("expect", ())])
    if "listed" in step:
        yield _wait_until_listed(step["listed"])
    yield {"name": f"{name} (again)", **task}
    if step.get("again") != "any":
        yield _assertion(name, [_is_changed(step.get("again", False))])


def _wait_until_listed(vmid: int) -> dict[str, Any]:
    named = f"selectattr('vmid', '==', {vmid}) | selectattr('name', 'defined')"
    return {
        "name": f"wait until {vmid} is listed",
        "ansible.builtin.uri": {
            "url": "{{ url }}/api2/json/cluster/resources?type=vm",
            "headers": {"Authorization": "{{ authorization }}"},
            "ca_path": "{{ ca }}",
        },
        "register": "listing",
        "until": f"listing.json.data | {named} | list | length > 0",
        "retries": 30,
        "delay": 1,
    }


def _is_changed(expected: bool) -> str:
    return "result is changed" if expected else "result is not changed"


def _assertion(name: str, conditions: list[str]) -> dict[str, Any]:
    shown = {"that": conditions, "fail_msg": "{{ result | to_json }}", "quiet": True}
    return {"name": f"assert: {name}", "ansible.builtin.assert": shown}


def play(clients: Clients, server: Server, steps: list[dict[str, Any]]) -> None:
    """Run a playbook of these steps. A failed step ends it, and its output tells which one."""
    tasks = [task for step in steps for task in tasks_of(step)]
    known = {
        "ansible_python_interpreter": str(clients.folder / "venv/bin/python"),
        "folder": str(server.folder),
        "authorization": f"PVEAPIToken={TOKEN}={server.ready['tokens'][TOKEN]}",
        **{key: server.ready[key] for key in ("url", "ca", "base")},
    }
    book = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": known,
            "tasks": tasks,
        }
    ]
    file = server.folder / "playbook.json"
    file.write_text(json.dumps(book))
    done = clients.run("ansible-playbook", str(file), env=server.environment())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("story", STORIES)
def test_the_modules_report_what_they_change_and_then_nothing(clients: Clients, server: Server, story: str) -> None:
    if story == "backups":
        _create_job(clients, server)
    play(clients, server, STORIES[story])


def _create_job(clients: Clients, server: Server) -> None:
    """Create the backup job that the module about schedules changes: no module of the collection creates one."""
    code = """
import os
from proxmoxer import ProxmoxAPI
given = os.environ
api = ProxmoxAPI(
    given["PROXMOX_HOST"], port=int(given["PROXMOX_PORT"]), user=given["PROXMOX_USER"], verify_ssl=given["PROXMOX_CA"],
    token_name=given["PROXMOX_TOKEN_ID"], token_value=given["PROXMOX_TOKEN_SECRET"],
)
api.cluster.backup.post(id="nightly", vmid="711", storage="local", mode="stop", starttime="02:00")
"""
    done = clients.run("python", "-c", code, env=server.environment())
    assert done.returncode == 0, done.stderr
