"""The question for a storage says what a storage costs that does not link clones."""

from __future__ import annotations

import pytest

from paddock.places.proxmox.node.survey import NodeOffer, Storage, storages
from paddock.setup.answers import AGENT, Answers, Base, Model, OnNode
from paddock.setup.node import _storage
from paddock.setup.render import render
from setup.scripted import conversation

SPACE = 500 << 30


def offer(*types: str) -> NodeOffer:
    disks = tuple(Storage(f"on-{kind}", kind, SPACE, SPACE, shared=False) for kind in types)
    return NodeOffer("pve", "9.2", disks, (), (), (), ())


def test_each_storage_is_offered_with_what_a_new_machine_costs_on_it() -> None:
    talk, script = conversation(["on-nfs"])
    chosen, _ = _storage(talk, offer("lvmthin", "nfs", "lvm"))
    assert chosen.type == "nfs"
    lines = " ".join(script.transcript.split())
    assert "lvmthin, 500G free 2" in lines
    assert "nfs, 500G free; no linked clones: every new machine is a full copy of its template" in lines
    assert "lvm, 500G free; no templates: packages and code are installed in every new machine" in lines
    assert "on-nfs (nfs) has no linked clones" in lines


@pytest.mark.parametrize(("kind", "said"), [("dir", "no linked clones"), ("zfspool", "")])
def test_the_only_storage_is_taken_with_what_it_costs(kind: str, said: str) -> None:
    talk, script = conversation(None)
    chosen, _ = _storage(talk, offer(kind))
    assert chosen.name == f"on-{kind}"
    assert ("no linked clones" in script.transcript) == bool(said)


@pytest.mark.parametrize("templates", [True, False])
def test_the_file_builds_no_template_on_a_storage_that_can_hold_none(*, templates: bool) -> None:
    place = OnNode("https://node:8006", None, "{env: T}", "pve", "tank", "vmbr0", Base("x"), templates=templates)
    text = render(Answers("home", place, Model("gopher", "gopher-1")))
    assert ("      template: none" in text) is not templates
    assert f"  {AGENT}:" in text


def test_storages_that_link_clones_come_first() -> None:
    rows = [
        {"storage": kind, "type": kind, "content": "rootdir", "active": 1, "avail": SPACE, "total": SPACE}
        for kind in ("dir", "lvm", "lvmthin", "nfs")
    ]
    assert storages(rows, "rootdir")[0].name == "lvmthin"
