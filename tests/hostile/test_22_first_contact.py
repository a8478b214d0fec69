"""Finding 22: the first contact with an adopted machine trusted whatever ssh host key answered at its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import Exit, PaddockError
from paddock.places import AdoptTarget
from paddock.places.proxmox.reach import fingerprint
from paddock.run.adopt import adopt, describe
from paddock.run.verbs import up
from places.node import Node, play_ssh

IMPOSTOR = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
WISH = AdoptTarget(105)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Somebody's container runs with a volume, and something else answers at its address."""
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    node.somebody(999, hostname="storage", mp0="local-lvm:10,mp=/home/bee", protection=1)
    volume = "local-lvm:vm-999-disk-1,mp=/home/bee"
    node.somebody(105, hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0=volume)
    node.root("pct", "start", 105)
    node.machines.host_keys[105] = IMPOSTOR
    return node


def adopted(node: Node) -> tuple[str, PaddockError | None]:
    """What is in the container's notes after `adopt`, and how that ended."""
    keys: dict[str, Any] = dict(describe(node.agent(), WISH).said)
    try:
        adopt(node.agent(**keys), WISH)
    except PaddockError as error:
        return str(node.config(105).get("description", "")), error
    return str(node.config(105).get("description", "")), None


def test_a_key_that_nobody_vouches_for_is_not_put_on_record(node: Node) -> None:
    notes, ended = adopted(node)
    assert IMPOSTOR not in notes, "adopt trusted the first ssh host key that answered, and would send secrets there"
    assert ended is not None
    assert ended.exit_code is Exit.NEEDS_PERSON


def test_the_person_gets_the_fingerprint_and_the_command_to_compare_it_with(node: Node) -> None:
    notes, ended = adopted(node)
    assert ended is not None, f"adopt asked nobody about the key {fingerprint(IMPOSTOR)}: {notes}"
    told = f"{ended.message}\n{ended.hint}"
    assert fingerprint(IMPOSTOR) in told
    assert "pct exec 105 -- ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub" in told
    assert f"--set agents.bee.machine.host_key={fingerprint(IMPOSTOR)}" in told
    assert "is gone" not in told


def test_nothing_is_changed_before_the_key_is_known(node: Node) -> None:
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    adopted(node)
    changed = {vmid for vmid in node.vmids if node.config(vmid) != before.get(vmid)}
    assert not changed, f"adopt changed containers {changed} although it could not know who answers there"


def test_up_does_not_trust_a_key_that_adopt_did_not_put_on_record(node: Node) -> None:
    """An adoption that was cut off leaves a mark without a key."""
    keys: dict[str, Any] = dict(describe(node.agent(), WISH).said)
    node.put(999, description="paddock: v=1 role=pet adopted=bee", hostname="storage")
    node.put(999, mp0="local-lvm:vm-999-disk-1,mp=/var/lib/paddock/bee,size=10G")
    node.put(105, description="paddock: v=1 role=cattle agent=bee")
    try:
        told = up(node.agent(**keys))
    except PaddockError as error:
        told = f"{error.message}\n{error.hint}"
    assert IMPOSTOR not in node.config(105)["description"], "up trusted the first ssh host key that answered"
    assert fingerprint(IMPOSTOR) in told
