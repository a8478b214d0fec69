"""Storages of every type that holds containers: with linked clones, without, and without templates."""

from __future__ import annotations

import pytest

from paddock.base.errors import Refused
from paddock.core.converge import cycle, up
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import ApiError
from paddock.verbs import templates
from places.node import CATTLE, PET, ROOT, WIDE, Node, PaperAgent

DIR = {"type": "dir", "path": "/mnt/slow"}
NFS = {"type": "nfs", "server": "nas", "export": "/volume"}
CIFS = {"type": "cifs", "server": "nas", "share": "volume"}
LVM = {"type": "lvm", "vgname": "tank"}


def slow(node: Node, definition: dict[str, str], template: str = "auto") -> PaperAgent:
    """Return an agent on a storage of this kind, which the node gets first."""
    with node.unnoted():
        client = node.client(ROOT)
        if "slow" not in {row["storage"] for row in client.get("/storage")}:
            client.send("POST", "/storage", {"storage": "slow", "content": "rootdir", **definition})
    return node.agent(token=WIDE, storage="slow", template=template)


def clones(node: Node) -> list[dict[str, str]]:
    return [sent.params for sent in node.writes if sent.path.endswith("/clone")]


@pytest.mark.parametrize("definition", [DIR, NFS, CIFS], ids=lambda each: each["type"])
def test_a_machine_is_a_full_copy_where_the_storage_has_no_linked_clones(
    node: Node, definition: dict[str, str]
) -> None:
    agent = slow(node, definition)
    plan = agent.plan_up()
    kind = definition["type"]
    assert f"storage slow ({kind}) has no linked clones: every new machine is a full copy" in str(plan.notes)
    up(agent)
    assert "nothing to do" in up(slow(node, definition))
    cycle(slow(node, definition))
    assert [(sent["full"], sent["storage"]) for sent in clones(node)] == [("1", "slow")] * 2
    assert node.running == [CATTLE]
    assert str(node.config(CATTLE)["rootfs"]).startswith(f"slow:{CATTLE}/vm-{CATTLE}-disk-0.raw")
    assert str(node.config(PET)["mp0"]).startswith(f"slow:{PET}/vm-{PET}-disk-1.raw")


def test_a_storage_with_linked_clones_gets_no_full_copy(node: Node) -> None:
    agent = node.agent(template="auto")
    assert "full copy" not in str(agent.plan_up().notes)
    up(agent)
    assert [sent.get("full") for sent in clones(node)] == [None]


def test_the_node_is_asked_whether_it_links_a_clone_of_an_unknown_storage(node: Node) -> None:
    """The type may be of a plugin that Paddock does not know."""

    def unknown(answer: dict[str, object]) -> dict[str, object]:
        rows = answer["data"]
        for row in rows if isinstance(rows, list) else ():
            if row.get("storage") == "slow" and "type" in row:
                row["type"] = "custom"
        return answer

    node.rewrite = unknown
    agent = slow(node, DIR)
    assert "full copy" not in str(agent.plan_up().notes)
    up(agent)
    assert [(sent["full"], sent["storage"]) for sent in clones(node)] == [("1", "slow")]
    assert "becomes a full copy of template" in str(agent.told)


def test_a_storage_without_templates_is_refused_before_anything_is_built(node: Node) -> None:
    agent = slow(node, LVM)
    for verb in (lambda: up(agent), lambda: list(templates.build([agent], rebuild=False))):
        with pytest.raises(Refused, match=r"storage slow \(lvm\) cannot hold a template") as caught:
            verb()
        assert "template: none" in str(caught.value.hint)
    assert not node.writes
    up(slow(node, LVM, template="none"))
    assert node.running == [CATTLE]
    cycle(slow(node, LVM, template="none"))
    assert node.running == [CATTLE]


def test_an_error_of_the_node_does_not_say_to_run_the_same_command_again(node: Node) -> None:
    up(node.agent(template="auto"))
    path = "/nodes/pve/lxc/*/clone"
    node.fault("answer", "500:Linked clone feature for 'x' is not available", method="POST", path=path)
    with pytest.raises(ApiError) as caught:
        cycle(node.agent(template="auto"))
    assert "again" not in str(caught.value.hint)
    assert "its cause is removed" in str(caught.value.hint)
    node.fault("fail-task", "out of space", path=path, method="POST")
    with pytest.raises(TaskFailed) as failed:
        up(node.agent(template="auto"))
    assert "again" not in str(failed.value.hint)


@pytest.mark.parametrize(("definition", "expected"), [(NFS, "full copy"), (LVM, "no templates")])
def test_doctor_says_what_a_new_machine_costs_on_a_slow_storage(
    node: Node, definition: dict[str, str], expected: str
) -> None:
    findings, _ = slow(node, definition).examine()
    (found,) = [each for each in findings if each.subject == "storage slow"]
    assert expected in found.evidence
    assert (found.ok, found.warns) == ((True, True) if definition is NFS else (False, False))
