"""Finding 22: the first contact with an adopted machine trusted whatever ssh host key answered at its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import Exit, PaddockError
from paddock.places.proxmox.reach import fingerprint
from paddock.plan.machine import AdoptTarget
from paddock.run.adopt import adopt, describe
from paddock.run.verbs import up
from places.node import Node, play_ssh

IMPOSTOR = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
TARGET = AdoptTarget(105)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Create a running container with a volume, at whose address another machine's host key answers."""
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    node.somebody(999, pool="paddock-state", hostname="storage", mp0="local-lvm:10,mp=/home/bee", protection=1)
    volume = "local-lvm:vm-999-disk-1,mp=/home/bee"
    node.somebody(105, pool="paddock", hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0=volume)
    node.root("pct", "start", 105)
    node.machines.host_keys[105] = IMPOSTOR
    return node


def adopted(node: Node) -> tuple[str, PaddockError | None]:
    """Run `adopt` and return the container's notes afterwards, and the error."""
    keys: dict[str, Any] = dict(describe(node.agent(), TARGET).said)
    try:
        adopt(node.agent(**keys), TARGET)
    except PaddockError as error:
        return str(node.config(105).get("description", "")), error
    return str(node.config(105).get("description", "")), None


def test_adopt_does_not_record_a_host_key_that_the_user_has_not_confirmed(node: Node) -> None:
    notes, ended = adopted(node)
    assert IMPOSTOR not in notes, "adopt trusted the first ssh host key that answered, and would send secrets there"
    assert ended is not None
    assert ended.exit_code is Exit.NEEDS_PERSON


def test_adopt_shows_the_fingerprint_and_the_command_that_prints_the_real_one(node: Node) -> None:
    notes, ended = adopted(node)
    assert ended is not None, f"adopt accepted the key {fingerprint(IMPOSTOR)} without asking: {notes}"
    text = f"{ended.message}\n{ended.hint}"
    assert fingerprint(IMPOSTOR) in text
    assert "pct exec 105 -- ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub" in text
    assert f"--set agents.bee.machine.host_key={fingerprint(IMPOSTOR)}" in text
    assert "is gone" not in text


def test_adopt_changes_nothing_before_the_host_key_is_confirmed(node: Node) -> None:
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    adopted(node)
    changed = {vmid for vmid in node.vmids if node.config(vmid) != before.get(vmid)}
    assert not changed, f"adopt changed containers {changed} before their host key was confirmed"


def test_up_does_not_trust_a_host_key_that_adopt_did_not_record(node: Node) -> None:
    """A killed `adopt` leaves a mark without a host key."""
    keys: dict[str, Any] = dict(describe(node.agent(), TARGET).said)
    node.put(999, description="paddock: v=2 role=pet adopted=home_bee", hostname="storage")
    node.put(999, mp0="local-lvm:vm-999-disk-1,mp=/var/lib/paddock/home_bee,size=10G")
    node.put(105, description="paddock: v=2 role=cattle agent=home_bee")
    try:
        text = up(node.agent(**keys))
    except PaddockError as error:
        text = f"{error.message}\n{error.hint}"
    assert IMPOSTOR not in node.config(105)["description"], "up trusted the first ssh host key that answered"
    assert fingerprint(IMPOSTOR) in text
