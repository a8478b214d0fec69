"""``paddock rename OLD NEW``, and agents that left the file, on a simulated node."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cli.conftest import Paddock, write_file
from paddock.file import edit
from places.node import CATTLE, PET, Killed, Node

FILE = Path("paddock.yaml")
STATE = "local-lvm:vm-100-disk-1"


def agents() -> dict[str, Any]:
    return dict(YAML(typ="safe").load(FILE)["agents"])


def write(node: Node, name: str, **keys: Any) -> None:
    """Write a file with one agent."""
    node.agent(name, **keys)


def as_json(paddock: Paddock, *words: str) -> list[dict[str, Any]]:
    said = paddock(*words, "--json")
    assert said.code == 0, said.err
    return list(json.loads(said.out))


def expect_renamed(node: Node, machine_path: str = "/var/lib/paddock/bee") -> None:
    assert node.vmids == [PET, CATTLE]
    assert node.running == [CATTLE]
    assert node.config(PET)["mp0"] == f"{STATE},mp=/var/lib/paddock/home_wasp,backup=1,size=8G"
    assert node.config(PET)["protection"] == 1
    assert node.config(CATTLE)["mp0"].startswith(f"{STATE},mp={machine_path}")
    assert "agent=home_wasp" in node.config(CATTLE)["description"]


@pytest.mark.parametrize("numbers", [{}, {"machine": {"vmid": CATTLE}, "state": {"pet": PET}}])
@pytest.mark.parametrize("edited", [False, True])
def test_a_renamed_agent_keeps_its_machine_and_its_state(
    node: Node, paddock: Paddock, numbers: dict[str, Any], edited: bool
) -> None:
    write(node, "bee", **numbers)
    assert paddock("up").code == 0
    if edited:
        write(node, "wasp", **numbers)
    text, network = FILE.read_text(), node.config(CATTLE)["net0"]
    shown = paddock("rename", "bee", "wasp")
    assert shown.code == 0, shown.err
    assert "give the state of bee to wasp: mount path on pet 100 " in shown.err
    assert "(the agent has the name bee so far)" in shown.err
    assert "mark machine 101 as the machine of wasp of project home" in shown.err
    assert "nothing was changed" in shown.err
    assert FILE.read_text() == text
    done = paddock("rename", "bee", "wasp", "--yes")
    assert (done.code, done.out) == (0, "wasp: up and working\n"), done.err
    assert agents().keys() == {"wasp"}
    assert agents()["wasp"]["state"]["path"] == "/var/lib/paddock/bee"
    expect_renamed(node)
    assert node.config(CATTLE)["net0"] == network
    assert paddock("plan", "--exit-code").code == 0
    assert paddock("rename", "bee", "wasp", "--yes").code == 2


def test_a_path_of_the_state_in_the_file_stays(node: Node, paddock: Paddock) -> None:
    write(node, "bee", state={"path": "/srv/mind"})
    assert paddock("up").code == 0
    assert paddock("rename", "bee", "wasp", "--yes").code == 0
    assert agents()["wasp"]["state"] == {"path": "/srv/mind"}
    expect_renamed(node, "/srv/mind")


@pytest.mark.parametrize("after", range(1, 7))
def test_the_same_command_finishes_a_rename_that_was_killed_at_any_request(
    node: Node, paddock: Paddock, after: int
) -> None:
    write(node, "bee")
    assert paddock("up").code == 0
    node.sent.clear()
    node.kill_after = after
    with pytest.raises(Killed):
        paddock("rename", "bee", "wasp", "--yes")
    node.kill_after, node._dead = 0, False
    assert len(node.volumes) == 3
    if after < 4:  # the mark of the machine has not changed yet
        refused = paddock("up")
        assert refused.code == 4, refused.err
        assert "`paddock rename bee wasp`" in refused.err
    again = paddock("rename", "bee", "wasp", "--yes")
    if again.code == 2:  # only steps of a usual `up` were left
        assert paddock("up").code == 0
    expect_renamed(node)


def test_the_file_is_renamed_before_the_place_and_a_plain_up_refuses_then(node: Node, paddock: Paddock) -> None:
    write(node, "bee")
    assert paddock("up").code == 0
    edit.rename_agent([FILE], "bee", "wasp", {"state": {"path": "/var/lib/paddock/bee"}})
    node.sent.clear()
    refused = paddock("up")
    assert refused.code == 4
    assert "/var/lib/paddock/bee, the path of bee, which is here (containers 101 and 100)" in refused.err
    assert "`paddock rename bee wasp` if it is the same agent" in refused.err
    assert node.writes == []


def test_wrong_names_are_refused_before_anything_is_read(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", "bee", "ant")
    for words, said in (
        (("bee",), "name the agent and its new name"),
        (("bee", "ant"), "the file has bee and ant: they are two agents"),
        (("cow", "wasp"), "the file has neither cow nor wasp"),
        (("bee", "Wasp"), "Wasp cannot be the name of an agent"),
        (("bee", "wasp"), "there is no bee of project home at home"),
    ):
        refused = paddock("rename", *words, "--yes")
        assert refused.code == 2, words
        assert said in refused.err
    assert node.writes == []
    assert agents().keys() == {"bee", "ant"}


def test_the_text_of_the_file_stays_where_the_name_is_not(tmp_path: Path) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(
        "agents:\n  # the proxy\n  proxy: # serves models\n    kind: litellm\n  bee:\n    gateway: proxy # its models\n"
    )
    over = tmp_path / "more.yaml"
    over.write_text("agents:\n  bee: {enabled: false}\n")
    [changed] = edit.rename_agent([file, over], "proxy", "models", {"state": {"path": "/srv/x"}})
    assert changed.path == file
    assert file.read_text() == (
        "agents:\n  # the proxy\n  models: # serves models\n    kind: litellm\n    state:\n      path: /srv/x\n"
        "  bee:\n    gateway: models # its models\n"
    )


def test_status_plan_and_doctor_name_an_agent_that_left_the_file(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", "bee", "ant")
    assert paddock("up", "--jobs", "1").code == 0
    write_file(node, "home", "bee")
    sentence = "home: ant of project home is not in the file: its machine 103 is running, its state is local-lvm:vm-102"
    shown = paddock("status")
    assert sentence in shown.out
    assert "`paddock rename ant NEW`" in shown.out
    assert "`paddock forget`" in shown.out
    rows = as_json(paddock, "status")
    assert [(row["agent"], row["machine"], row["status"], row["drift"]) for row in rows] == [
        ("bee", "101", "running", "-"),
        ("ant", "103", "running", "not in the file"),
    ]
    assert rows[0].keys() == rows[1].keys()
    assert sentence in paddock("plan").err
    assert [(plan["agent"], plan["steps"]) for plan in as_json(paddock, "plan")] == [("bee", []), ("ant", [])]
    assert f"! ant: {sentence}" in paddock("doctor").out
    assert "ant" not in paddock("status", "--only", "bee").out
    node.root("pct", "stop", 103)
    assert "its machine 103 is stopped" in paddock("plan").err


def test_an_agent_that_is_down_and_left_the_file_is_named_with_its_state(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", "bee", "ant")
    assert paddock("up", "--jobs", "1").code == 0
    assert paddock("down", "--only", "ant").code == 0
    write_file(node, "home", "bee")
    assert (
        "ant of project home is not in the file: it has no machine, its state is local-lvm:vm-102"
        in paddock("plan").err
    )
    assert [row["status"] for row in as_json(paddock, "status")] == ["running", "absent"]


def test_agents_of_other_projects_and_disabled_ones_have_not_left_the_file(node: Node, paddock: Paddock) -> None:
    write_file(node, "lab", "ant")
    assert paddock("up").code == 0
    write_file(node, "home", "bee", "cow")
    assert paddock("up", "--jobs", "1").code == 0
    said = json.loads(FILE.read_text())
    said["agents"]["cow"]["enabled"] = False
    FILE.write_text(json.dumps(said))
    assert len(as_json(paddock, "status")) == 1
    assert "not in the file" not in paddock("plan").err + paddock("doctor").out


def test_the_builder_of_an_interrupted_build_is_shown(node: Node, paddock: Paddock) -> None:
    write(node, "bee", template="auto")
    node.kill_after = 6
    with pytest.raises(Killed):
        paddock("up")
    node.kill_after, node._dead = 0, False
    sentence = "home: an interrupted build has left the builder of template service"
    for verb in ("status", "plan", "doctor"):
        said = paddock(verb).out + paddock(verb).err
        assert sentence in said
        assert "(102, running); `paddock template prune --yes` removes it" in said
    assert as_json(paddock, "status")[1]["drift"] == "an interrupted build"
    assert "102 (service" in paddock("template", "prune", "--yes").out
    assert sentence not in paddock("status").out


HOST = """\
project: home
places: {here: {host: {}}}
agents:
  bee: {kind: service, place: here, runtime: process, command: [/bin/sleep, '9']}
  ant: {kind: service, place: here, runtime: process, command: [/bin/sleep, '9']}
"""


@pytest.fixture
def lasting() -> Iterator[Path]:
    """A folder that is no temporary one: no state is written there into a file."""
    if os.geteuid() != 0:
        pytest.skip("needs a folder in /srv")
    with tempfile.TemporaryDirectory(dir="/srv") as folder:
        yield Path(folder)


def on_this_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder / name))
    monkeypatch.chdir(folder)
    FILE.write_text(HOST)


def test_an_agent_of_a_host_that_left_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock
) -> None:
    on_this_machine(monkeypatch, tmp_path)
    said = paddock("up", "--jobs", "1")
    assert said.code == 0, said.err
    assert "not in the file" not in paddock("plan").err
    FILE.write_text("\n".join(HOST.splitlines()[:-1]) + "\n")
    state = tmp_path / "XDG_DATA_HOME/paddock/ant/state"
    assert f"here: ant of project home is not in the file: it is installed there, its state is {state};" in (
        paddock("plan").err
    )
    rows = as_json(paddock, "status")
    assert [(row["agent"], row["machine"], row["status"]) for row in rows][1:] == [("ant", "here", "installed")]


def test_an_agent_on_a_host_is_renamed_with_its_state(
    lasting: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock
) -> None:
    on_this_machine(monkeypatch, lasting)
    assert paddock("up", "--jobs", "1").code == 0
    state = lasting / "XDG_DATA_HOME/paddock/bee/state"
    (state / "home/notes").write_text("learned")
    before = (state / ".paddock/identity").read_text()
    shown = paddock("rename", "bee", "wasp")
    assert shown.code == 0, shown.err
    assert "rename bee to wasp: rename its units, configuration and state mark" in shown.err
    done = paddock("rename", "bee", "wasp", "--yes", "--set", "agents.bee.backup.to.folder=backups")
    assert done.code == 0, done.err
    assert "its backups so far keep the name bee; `paddock backup wasp` makes the first of wasp" in done.err
    assert agents()["wasp"]["state"] == {"path": str(state)}
    assert (state / "home/notes").read_text() == "learned"
    assert (state / ".paddock/identity").read_text() == before.replace("home_bee", "home_wasp")
    assert paddock("plan", "--exit-code").code == 0
    assert "not in the file" not in paddock("plan").err
    assert not (lasting / "XDG_DATA_HOME/paddock/home_bee").exists()


def test_a_host_whose_file_alone_was_renamed_refuses_and_names_the_command(
    lasting: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock
) -> None:
    on_this_machine(monkeypatch, lasting)
    assert paddock("up", "--jobs", "1").code == 0
    state = lasting / "XDG_DATA_HOME/paddock/bee/state"
    edit.rename_agent([FILE], "bee", "wasp", {"state": {"path": str(state)}})
    refused = paddock("up", "--only", "wasp")
    assert refused.code == 4
    assert "the state that the file names belongs to bee of project home" in refused.err
    assert "run `paddock rename bee wasp`" in refused.err
    assert paddock("rename", "bee", "wasp", "--yes").code == 0


def test_a_rename_that_makes_the_file_wrong_leaves_it_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock
) -> None:
    on_this_machine(monkeypatch, tmp_path)
    assert paddock("up", "--jobs", "1").code == 0
    refused = paddock("rename", "bee", "wasp", "--yes")  # its state is in a temporary folder
    assert refused.code == 2
    assert "agents.wasp.state.path: must be a folder of the agent's own" in refused.err
    assert FILE.read_text() == HOST
