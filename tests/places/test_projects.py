"""Projects: an agent is found by its id alone, and keeps its machine and its state when its id changes."""

from __future__ import annotations

import re
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from paddock.base.errors import Refused
from paddock.core import converge
from paddock.core.converge import cycle, down, forget, plan_forget, up
from paddock.verbs import rename as renames
from paddock.verbs.status import Status
from places.life import STATE, expect_down, expect_up, runs_until_done
from places.node import CATTLE, PET, Killed, Node, PaperAgent

PATH = "/var/lib/paddock"


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def lab(node: Node, **keys: Any) -> PaperAgent:
    """A colleague's agent of the same name, in another file."""
    return node.agent(project="lab", **keys)


def beside(agent: PaperAgent) -> PaperAgent:
    return agent.beside_namesakes()


def without_project(node: Node) -> None:
    """Make the agent what Paddock 0.1 deployed."""
    for vmid in (PET, CATTLE):
        if vmid in node.vmids:
            notes = node.config(vmid)["description"]
            node.put(vmid, description=notes.replace("v=2", "v=1").replace("home_", ""))
    for key in ("mp0", "mp1"):
        if key in node.config(PET):
            node.put(PET, **{key: node.config(PET)[key].replace("home_", "")})


def steps(agent: PaperAgent) -> list[str]:
    return [step.id for step in agent.plan_up().steps]


@pytest.fixture
def old(node: Node) -> Node:
    """A node with a running agent that Paddock 0.1 deployed."""
    up(node.agent())
    without_project(node)
    node.sent.clear()
    return node


# Another project is foreign


def test_down_and_forget_from_another_file_do_not_touch_a_colleagues_agent(node: Node) -> None:
    up(lab(node))
    node.sent.clear()
    assert down(node.agent()).startswith("bee: was down")
    assert forgotten(node.agent()) == "bee: there was nothing to forget"
    assert node.writes == []
    expect_up(node)
    down(lab(node))
    node.sent.clear()
    assert forgotten(node.agent()) == "bee: there was nothing to forget"
    assert node.writes == []
    expect_down(node)


def test_up_refuses_while_the_place_has_an_agent_of_that_name_in_another_project(node: Node) -> None:
    up(lab(node))
    node.sent.clear()
    with pytest.raises(Refused, match=r"bee of project lab is here already \(containers 101 and 100\)") as caught:
        up(node.agent())
    hint = str(caught.value.hint)
    assert "write `project: lab`" in hint
    assert "`paddock rename --from lab`" in hint
    assert "`paddock up --new`" in hint
    assert node.writes == []
    down(lab(node))
    with pytest.raises(Refused, match=r"bee of project lab is here already \(container 100\)"):
        up(node.agent())


def test_agents_of_one_name_in_two_projects_live_beside_each_other(node: Node) -> None:
    up(lab(node))
    up(beside(node.agent()))
    assert len(node.running) == 2
    assert up(node.agent()) == "bee: nothing to do, and healthy"  # --new is needed once
    down(lab(node))
    assert len(node.running) == 1
    forgotten(lab(node))
    assert [config["mp0"] for config in map(node.config, node.vmids)] == [
        f"local-lvm:vm-102-disk-1,mp={PATH}/home_bee,backup=1,size=8G",
        f"local-lvm:vm-102-disk-1,mp={PATH}/bee,size=8G",
    ]


@pytest.mark.parametrize("mark", ["v=1 role=cattle agent=bee", "v=2 role=cattle agent=lab_bee"])
def test_a_forged_mark_does_not_get_the_state_of_an_agent_that_is_down(node: Node, mark: str) -> None:
    up(node.agent())
    down(node.agent())
    node.somebody(200, pool="paddock", description=f"paddock: {mark}", hostname="trap")
    # Without a project it may be the agent's machine of Paddock 0.1.
    refused = pytest.raises(Refused, match="is here twice") if "v=1" in mark else nullcontext()
    with refused:
        up(node.agent())
    assert "mp0" not in node.config(200)
    assert node.config(200)["description"].strip() == f"paddock: {mark}"


def test_a_pet_of_another_project_gets_no_volume(node: Node) -> None:
    up(lab(node))
    node.sent.clear()
    with pytest.raises(Refused, match=r"container 100 \(bee-pet\) is a pet of project lab"):
        up(node.agent("ant", state={"pet": PET}))
    assert node.writes == []


# A former id


def test_up_gives_its_project_to_what_an_earlier_version_deployed(old: Node) -> None:
    assert steps(old.agent())[:2] == ["pet.rename", "cattle.rename"]
    up(old.agent())
    expect_up(old)
    assert old.config(PET)["mp0"] == f"{STATE},mp={PATH}/home_bee,backup=1,size=8G"
    assert "paddock: v=2 role=pet" in old.config(PET)["description"]
    assert re.search("paddock: v=2 role=cattle agent=home_bee made-from=", old.config(CATTLE)["description"])
    assert up(old.agent()) == "bee: nothing to do, and healthy"


def test_up_gives_its_project_to_an_agent_that_is_down(old: Node) -> None:
    old.root("pct", "stop", CATTLE)
    old.root("pct", "destroy", CATTLE)
    up(old.agent())
    expect_up(old)
    assert old.config(PET)["mp0"].startswith(f"{STATE},mp={PATH}/home_bee")


@pytest.mark.parametrize("after", range(1, 5))
def test_a_rename_continues_after_a_kill_at_any_request(old: Node, after: int) -> None:
    old.kill_after = after
    ends = runs_until_done(up, old.agent)
    assert [type(end) for end in ends] == [Killed]
    expect_up(old)
    assert old.config(PET)["mp0"].startswith(f"{STATE},mp={PATH}/home_bee,backup=1")
    assert steps(old.agent()) == []
    assert [sent.method for sent in old.writes][:4] == ["PUT"] * 4
    assert not [str(sent) for sent in old.writes if sent.method != "PUT"]


def test_the_cache_and_the_record_of_an_adoption_get_the_project_too(node: Node) -> None:
    docker: dict[str, Any] = {"runtime": "docker", "container": {"install": True, "base": "debian:12", "data": "4G"}}
    up(node.agent(**docker))
    node.put(PET, description="paddock: v=2 role=pet adopted=ant,home_bee")
    without_project(node)
    assert "adopted=ant,bee" in node.config(PET)["description"]
    up(node.agent(**docker))
    config = node.config(PET)
    assert config["mp0"].startswith(f"{STATE},mp={PATH}/home_bee")
    assert config["mp1"].startswith(f"local-lvm:vm-100-disk-2,mp={PATH}-cache/home_bee,backup=0")
    assert "adopted=ant,home_bee" in config["description"]
    assert config["protection"] == 1


@pytest.mark.parametrize("verb", [down, cycle, forgotten])
def test_only_up_changes_an_agent_under_its_former_id(old: Node, verb: Any) -> None:
    with pytest.raises(Refused, match=r"bee has no project so far \(containers 101 and 100\)") as e:
        verb(old.agent())
    assert "run `paddock up` first" in str(e.value.hint)
    assert old.writes == []


def test_reading_verbs_show_an_agent_under_its_former_id(old: Node) -> None:
    status = Status.of(old.agent())
    assert (status.machine, status.status) == ("101 (of bee, which has no project)", "running")
    assert status.state == STATE
    agent = old.agent()
    findings = {line.subject: line for line in agent.node.verify(agent.machine_want, agent.node.observe())}
    assert findings["machine"].ok
    assert "of bee, which has no project" in findings["machine"].evidence
    assert findings["state.owner"].ok


def test_a_half_renamed_agent_is_neither_taken_down_nor_given_a_second_machine(old: Node) -> None:
    old.kill_after = 3
    with pytest.raises(Killed):
        up(old.agent())
    assert old.config(PET)["mp0"].startswith(f"{STATE},mp={PATH}/home_bee")
    assert "agent=bee" in old.config(CATTLE)["description"]
    with pytest.raises(Refused, match="bee has no project so far"):
        down(old.agent())
    assert steps(old.agent())[0] == "cattle.rename"


def test_up_refuses_while_an_agent_is_here_under_two_ids(node: Node) -> None:
    up(node.agent())
    without_project(node)
    up(beside(node.agent()))
    with pytest.raises(
        Refused,
        match=r"is here twice: bee of project home \(containers 103 and 102\) and"
        r" bee, which has no project \(containers 101 and 100\)",
    ):
        up(node.agent())
    assert up(beside(node.agent())) == "bee: nothing to do, and healthy"
    down(node.agent())
    assert node.running == [CATTLE]


def test_a_forget_that_an_earlier_version_began_is_finished_under_the_former_id(old: Node) -> None:
    old.root("pct", "stop", CATTLE)
    old.root("pct", "destroy", CATTLE)
    old.put(PET, description=f"paddock: v=1 role=pet forgetting=bee/{STATE}")
    with pytest.raises(Refused, match="unfinished `forget` of bee"):
        up(old.agent())
    assert forgotten(old.agent()) == "bee: forgotten"
    assert old.vmids == []


def test_an_unmarked_pet_of_an_earlier_version_stops_up(old: Node) -> None:
    old.root("pct", "stop", CATTLE)
    old.root("pct", "destroy", CATTLE)
    old.put(PET, description="precious", hostname="storage")
    with pytest.raises(Refused, match=r"container 100 \(storage\) looks like the pet of bee"):
        up(old.agent())


def test_two_runs_from_two_hosts_give_an_agent_its_project_once(old: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converge, "agent_lock", nullcontext)
    monkeypatch.setattr(converge, "place_lock", lambda *_: nullcontext())
    runs = [threading.Thread(target=up, args=(old.agent(),)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    up(old.agent())
    expect_up(old)
    assert old.config(PET)["mp0"].startswith(f"{STATE},mp={PATH}/home_bee")


def test_forget_names_the_other_agent_whose_machine_has_the_volume(node: Node) -> None:
    up(node.agent())
    down(node.agent())
    other = "paddock: v=2 role=cattle agent=lab_ant"
    node.somebody(200, pool="paddock", description=other, mp0=f"{STATE},mp=/data", hostname="ant")
    with pytest.raises(Refused, match=r"container 200 \(ant\) still has") as caught:
        forgotten(node.agent())
    assert "the machine of ant of project lab" in str(caught.value.hint)
    assert STATE.partition(":")[2] in node.volumes


# Another project on purpose


@pytest.mark.parametrize("after", range(5))
def test_rename_moves_an_agent_from_another_project(node: Node, after: int) -> None:
    up(lab(node))
    node.sent.clear()
    node.kill_after = after

    def rename(agent: PaperAgent) -> str:
        moved = renames.from_project(agent, "lab")
        agreed = renames.plan(moved)
        return renames.rename(moved, agreed) if agreed else up(agent)

    ends = runs_until_done(rename, node.agent)
    assert [type(end) for end in ends] == [Killed] * bool(after)
    expect_up(node)
    assert node.config(PET)["mp0"].startswith(f"{STATE},mp={PATH}/home_bee")
    assert "agent=home_bee" in node.config(CATTLE)["description"]
    assert renames.plan(renames.from_project(node.agent(), "lab")) is None


def test_rename_does_not_create_an_agent(node: Node) -> None:
    assert renames.plan(renames.from_project(node.agent(), "lab")) is None
    up(node.agent())
    assert renames.plan(renames.from_project(node.agent(), "lab")) is None


def test_rename_refuses_when_the_plan_has_changed(node: Node) -> None:
    up(lab(node))
    agreed = renames.plan(renames.from_project(node.agent(), "lab"))
    assert agreed is not None
    down(lab(node))
    node.sent.clear()
    with pytest.raises(Refused, match="the plan has changed"):
        renames.rename(renames.from_project(node.agent(), "lab"), agreed)
    assert node.writes == []
