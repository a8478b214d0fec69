"""``paddock rename``, ``adopt --from-project`` and ``up --new``, on a simulated node."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import Paddock, write_file
from places.node import CATTLE, PET, Node


def test_a_changed_project_is_noticed_and_rename_is_the_way(node: Node, paddock: Paddock) -> None:
    write_file(node, "lab", "bee", "ant")
    assert paddock("up", "--jobs", "1").code == 0
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    volumes, running = node.volumes, node.running
    write_file(node, "home", "bee", "ant", "new")
    refused = paddock("up", "--only", "bee")
    assert refused.code == 4
    assert "bee of project lab is here already" in refused.err
    assert "`paddock rename --from lab`" in refused.err
    shown = paddock("rename", "--from", "lab")
    assert (shown.code, shown.out) == (0, "")
    assert "move the state of bee to project home" in shown.err
    assert "the machine of ant of project home" in shown.err
    assert "new" not in shown.err.replace("--new", "")
    assert "nothing was changed; --yes carries out this plan" in shown.err
    assert {vmid: node.config(vmid) for vmid in node.vmids} == before
    done = paddock("rename", "--from", "lab", "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["bee: up and working", "ant: up and working"]
    assert (node.vmids, node.volumes, node.running) == (list(before), volumes, running)
    assert paddock("plan", "--only", "bee", "--only", "ant", "--exit-code").code == 0
    again = paddock("rename", "--from", "lab", "--yes")
    assert again.code == 2
    assert "there is no bee and no ant and no new of project lab" in again.err


def test_adopt_takes_one_agent_over_from_another_project(node: Node, paddock: Paddock) -> None:
    write_file(node, "lab", "bee", "ant")
    assert paddock("up", "--jobs", "1").code == 0
    write_file(node, "home", "bee", "ant")
    text = Path("paddock.yaml").read_text()
    assert paddock("adopt", "bee", "--from-project", "lab").code == 0
    assert "/lab_bee" in node.config(PET)["mp0"]
    done = paddock("adopt", "bee", "--from-project", "lab", "--yes")
    assert (done.code, done.out) == (0, "bee: up and working\n")
    assert "/home_bee" in node.config(PET)["mp0"]
    assert "agent=home_bee" in node.config(CATTLE)["description"]
    assert sum("lab_ant" in str(node.config(vmid)) for vmid in node.vmids) == 2
    assert Path("paddock.yaml").read_text() == text
    assert paddock("adopt", "bee", "105", "--from-project", "lab").code == 2
    assert paddock("adopt", "bee", "--from-project", "home").code == 2
    assert paddock("adopt", "bee", "--from-project", "zoo").code == 2


def test_up_new_creates_an_agent_beside_one_of_the_same_name(node: Node, paddock: Paddock) -> None:
    write_file(node, "lab")
    assert paddock("up", "--jobs", "1").code == 0
    write_file(node, "home")
    assert paddock("plan").code == 4
    assert "create pet 102" in paddock("plan", "--new").out
    assert paddock("up", "--new").code == 0
    assert len(node.running) == 2
    assert paddock("plan", "--exit-code").code == 0
    assert paddock("down").code == 0
    assert node.running == [CATTLE]


def test_rename_needs_the_other_project(paddock: Paddock, node: Node) -> None:
    write_file(node, "home")
    assert paddock("rename").code == 2
    assert paddock("rename", "--from", "home").code == 2
