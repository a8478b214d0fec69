"""The roles that `doctor` prints: a token with them can do the work, and without them cannot."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import cycle, down, forget, plan_forget, up
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.access import roles
from places.node import MACHINES, Node, PaperAgent
from places.test_adopt import Adoption
from places.test_planner import NODE

WORKER = "worker@pve!work"
KEYS: dict[str, Any] = {"state": {"pet": 300, "size": "1G"}}


@pytest.fixture
def bare(node: Node) -> Node:
    """A node with a token without privileges."""
    node.root("pveum", "user", "add", "worker@pve")
    node.root("pveum", "user", "token", "add", "worker@pve", "work", "--privsep", "1")
    return node


def worker(node: Node, **keys: Any) -> PaperAgent:
    return node.agent(token=WORKER, **{**KEYS, **keys})


def remedies(node: Node, *works: str, **keys: Any) -> list[str]:
    """Return the commands that doctor prints for a kind of work."""
    agent = worker(node, **keys)
    found, work = [], ""
    for line in agent.examine()[1]:
        work = line.removeprefix("# ") if line.startswith("#") else work
        if line.startswith("pveum") and work in works:
            found.append(line)
    return found


def carry_out(node: Node, commands: list[str]) -> None:
    assert commands
    for command in commands:
        node.root(*shlex.split(command))


def test_the_printed_commands_grant_all_that_is_needed(bare: Node) -> None:
    with pytest.raises(Refused, match="the token lacks privileges"):
        up(worker(bare))
    carry_out(bare, remedies(bare, "daily", "setup"))
    agent = worker(bare)
    findings, left = agent.examine()
    assert left == []
    assert all(finding.ok for finding in findings)
    for template in ("none", "auto"):
        up(worker(bare, template=template))
        up(worker(bare, template=template, machine={"cores": 1}, state={"pet": 300, "size": "2G"}))
        cycle(worker(bare, template=template, state={"pet": 300, "size": "2G"}))
        down(worker(bare, template=template))
        seen, plan = plan_forget(worker(bare))
        forget(worker(bare), plan, seen)


def test_the_daily_role_runs_agents_and_cannot_delete_their_state(bare: Node) -> None:
    up(bare.agent(**KEYS))
    down(bare.agent(**KEYS))
    carry_out(bare, remedies(bare, "daily"))
    up(worker(bare))
    cycle(worker(bare))
    with pytest.raises(Refused, match=r"the token lacks privileges: VM\.Config\.Options on /vms/300"):
        up(worker(bare, state={"pet": 300, "size": "2G"}))
    assert len(bare.running) == 1  # the machine was not stopped for a volume that the token cannot grow
    down(worker(bare))
    seen, plan = plan_forget(worker(bare))
    with pytest.raises(PaddockError):
        forget(worker(bare), plan, seen)
    assert "vm-300-disk-1" in bare.volumes
    assert bare.config(300)["protection"] == 1


def test_the_setup_role_is_enough_to_adopt(bare: Node) -> None:
    bare.somebody(200, pool=MACHINES, mp0="local-lvm:1,mp=/home/bee", net0="name=eth0,bridge=vmbr0,ip=dhcp")
    carry_out(bare, remedies(bare, "daily", "setup"))
    adoption = Adoption(bare, 200, "mp0", state={"pet": 300}, token=WORKER)
    adoption.looked = True
    adoption.run()
    assert bare.config(300)["mp0"].startswith("local-lvm:vm-300-disk-1,mp=/var/lib/paddock/home_bee")


def test_doctor_helps_a_token_that_may_not_list_the_base_archives(bare: Node) -> None:
    download = {"url": "https://example.org/debian.tar.zst", "sha256": "0" * 64}
    commands = remedies(bare, "daily", "setup", base=download)
    for role in ("PaddockBase", "PaddockDownload", "PaddockNode"):
        assert any(command.endswith(f"--roles {role}") for command in commands)
    with pytest.raises(Refused, match=r"Datastore\.AllocateTemplate, Datastore\.Audit on /storage/local"):
        up(worker(bare, base=download))


def test_downloading_the_base_archive_needs_more_privileges() -> None:
    download = {"base": {"url": "https://example.org/debian.tar.zst", "sha256": "0" * 64}}
    lists = [roles.grants(ProxmoxSpec.model_validate(NODE | more), (), (), ()) for more in ({}, download)]
    more = {(grant.path, privilege) for grant in lists[1] if grant not in lists[0] for privilege in grant.privileges}
    assert {("/storage/local", "Datastore.AllocateTemplate"), ("/nodes/pve", "Sys.AccessNetwork")} <= more
