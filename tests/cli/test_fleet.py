"""Verbs over many agents: the number of requests, and what is planned from which reading of the node."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Paddock, make_reachable, write_file
from paddock.core.converge import up
from paddock.kinds import load
from places.node import Node

ROOT = Path(__file__).parents[2]
LISTING = "/nodes/pve/lxc"
SPARE = 20  # requests besides one for each container


class Fleet:
    """A node with any number of agents that exist, as Paddock made the first of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(ROOT))
        self._stage: Any = importlib.import_module("bench.fleet_stage")
        self._monkeypatch = monkeypatch
        self._folder = folder
        (folder / "one").mkdir()
        one = Node(folder / "one")
        make_reachable(one, monkeypatch, folder / "one")
        up(one.agent(self._stage.FIRST, **self._keys(self._stage.FIRST)))
        state = folder / "one/node"
        parts = (self._stage.part_of(state, role) for role in ("pet", "cattle"))
        self._made = self._stage.Made(*parts, template=None)

    def _keys(self, name: str) -> dict[str, Any]:
        return {"machine": {"net": {"address": f"{self._stage.address_of(name)}/16"}}}

    def with_agents(self, count: int) -> Node:
        """Return a node with this many agents, and write the file that describes them."""
        names = self._stage.names(count)
        folder = self._folder / f"{count}"
        folder.mkdir()
        node = Node(folder, given=self._stage.fixture_of(self._made, names))
        make_reachable(node, self._monkeypatch, folder)
        node.agent(names[0], **self._keys(names[0]))
        said = json.loads((folder / "paddock.yaml").read_text())
        first = said["agents"].pop(names[0])
        said["agents"] = {name: {**first, **self._keys(name)} for name in names}
        (folder / "paddock.yaml").write_text(json.dumps(said))
        loaded = load(folder / "paddock.yaml")
        for name in names:
            wanted = node.agent_of(loaded, name).seen_as_wanted()
            node.machines.inside[self._stage.address_of(name)] = wanted
        node.sent.clear()
        return node


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("verb", "sizes", "words"),
    [
        (["plan"], (10, 100), "nothing to do"),
        (["up"], (5, 20), "nothing to do, and healthy"),
        (["status", "--json"], (5, 20), '"status": "running"'),
    ],
)
def test_a_verb_asks_once_for_each_container(
    fleet: Fleet, paddock: Paddock, verb: list[str], sizes: tuple[int, int], words: str
) -> None:
    asked = []
    for count in sizes:
        node = fleet.with_agents(count)
        said = paddock(*verb)
        assert said.code == 0, said.err
        assert said.out.count(words) == count
        assert len(node.sent) <= 2 * count + SPARE
        assert node.writes == []
        asked.append(len(node.sent))
    few, many = sizes
    assert asked[1] - asked[0] == 2 * (many - few)


def test_a_plan_of_absent_agents_reads_the_node_once(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", *(f"bee{number}" for number in range(30)))
    node.sent.clear()
    said = paddock("plan")
    assert said.out.count("create pet") == 30
    assert len(node.sent) <= SPARE


def test_a_change_is_planned_from_a_reading_of_its_own(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", "bee", "wasp", "ant")
    assert paddock("up").code == 0
    file = Path("paddock.yaml")
    said = json.loads(file.read_text())
    said["agents"]["wasp"] = {**said["agents"]["wasp"], "machine": {"cores": 4}}
    file.write_text(json.dumps(said))
    node.sent.clear()
    done = paddock("up", "--jobs", "1")
    assert done.code == 0, done.err
    assert done.out.count("nothing to do, and healthy") == 2
    paths = [sent.path for sent in node.sent]
    first_write = next(at for at, sent in enumerate(node.sent) if sent.writes)
    assert paths[:first_write].count(LISTING) == 2


def test_a_machine_that_was_stopped_after_the_shared_reading_is_planned_again(node: Node, paddock: Paddock) -> None:
    write_file(node, "home", "bee", "wasp")
    assert paddock("up").code == 0
    wasps = next(vmid for vmid in node.running if node.config(vmid)["hostname"] == "wasp")
    file = Path("paddock.yaml")
    said = json.loads(file.read_text())
    said["agents"]["wasp"] = {**said["agents"]["wasp"], "machine": {"cores": 4}}
    file.write_text(json.dumps(said))
    node.before("GET", LISTING, lambda: node.machines.stop(wasps), nth=2)
    done = paddock("up", "--jobs", "1")
    assert done.code == 0, done.err
    assert node.config(wasps)["cores"] == 4
    assert wasps in node.running
