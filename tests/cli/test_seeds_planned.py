"""The deployments of the five seeds, written by a reader of the documentation, pass `check` and are planned.

tests/live/test_seeds_come_up.py brings them up. Those of seed 003, on a host, are examples, which
tests/file/test_examples.py checks.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import DATA
from cli.conftest import Paddock, make_reachable
from places.node import DEPLOYER, Node

ON_A_NODE = {"docker-lxc": "gihyeon", "pet-and-cattle": "tazlab"}  # the seed's own name of the node


@pytest.mark.parametrize("name", ON_A_NODE)
def test_the_file_of_a_seed_is_planned_on_a_new_node(
    paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    node = Node(tmp_path, nodes=(ON_A_NODE[name],))
    make_reachable(node, monkeypatch, tmp_path)
    for variable in ("OPENAI_API_KEY", "LITELLM_API_KEY", "TELEGRAM_BOT_TOKEN"):
        monkeypatch.setenv(variable, "of-nobody")
    monkeypatch.setenv("PVE_TOKEN", f"{DEPLOYER}={node.world.access.tokens[DEPLOYER].secret}")
    file = str(DATA / f"seeds/{name}.yaml")
    said = paddock("check", "-f", file)
    assert (said.code, said.err) == (0, "")

    # The certificate, the ssh key and the bridge are those of the simulated node.
    own = {"ca": None, "bridge": "vmbr0", "ssh": {"key": str(tmp_path / "id")}}
    Path("own.yaml").write_text(json.dumps({"places": {"home": {"proxmox": own}}}))
    planned = paddock("plan", "--json", "-f", file, "-f", "own.yaml")
    assert (planned.code, planned.err) == (0, "")
    [plan] = json.loads(planned.out)
    assert plan["refusals"] == []
    steps = [step["id"] for step in plan["steps"]]
    assert steps[0] == "pet.create"
    assert steps[-1] == "agent.answer"
    commands = "\n".join(command for step in plan["steps"] for command in step["commands"])
    for mount in ("/mnt/pve/hdd/hermes,mp=/data", "/media/2tb/hermes,mp=/fast"):
        assert (mount in commands) is (name == "docker-lxc")
