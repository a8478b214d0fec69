"""A key that changes on a machine that exists: the plan has a step, a refusal or a note for it, and is never silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from keys.shapes import AGENT, BASE, every_shape
from keys.table import rows
from keys.test_every_key import accepted
from keys.world import write_files
from paddock.core.converge import up
from paddock.file.load import Loaded
from places.node import DEPLOYER, Node, play_ssh

SHAPES = {shape.name: shape for shape in every_shape()}


@pytest.mark.parametrize("name", ["service proxmox systemd", "hermes proxmox docker base"])
def test_a_changed_key_of_the_machine_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, shape = Node(tmp_path), SHAPES[name]
    node.add_archive(BASE)
    play_ssh(monkeypatch, node)
    monkeypatch.setenv("A_KEY", "first-secret")
    write_files(tmp_path, f"{DEPLOYER}={node.world.access.tokens[DEPLOYER].secret}")
    shown = [row for row in rows() if row.shows == "plan" and shape.has(row.only) and not row.sentence(shape)]
    file = accepted(shape.file, tmp_path)
    assert isinstance(file, Loaded)
    up(node.agent_of(file, AGENT))
    assert node.agent_of(file, AGENT).plan_up().empty
    silent = []
    for row in shown:
        changed = accepted(row.files(shape)[1], tmp_path)
        assert isinstance(changed, Loaded)
        plan = node.agent_of(changed, AGENT).plan_up()
        if not (plan.steps or plan.refusals or plan.notes):
            silent.append(row.key)
    assert silent == []
