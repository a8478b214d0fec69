"""The checks of a node's configuration: each defect fails its own check."""

from __future__ import annotations

from typing import Any

import pytest

from cases import DATA, read_case
from paddock.file.agent_id import AgentId
from paddock.kinds import agent_from
from paddock.places.contract import Finding, MachineWant
from paddock.places.proxmox.machine import verify
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen

WANT = MachineWant(
    AgentId("home", "hermes"),
    agent_from({"kind": "hermes", "version": "0.19.0", "place": "home"}),
    "/var/lib/paddock/hermes",
)
MARK = "paddock: v=2 role=cattle agent=home_hermes"
VOLUME = "local-lvm:vm-999-disk-1"


def findings(**broken: dict[str, Any]) -> dict[str, Finding]:
    """Return the findings on a healthy node with some changes."""
    seen = read_case(DATA / "plan/proxmox/all-is-well.yaml")["seen"]
    for name, entry in broken.items():
        vmid = int(name.removeprefix("ct"))
        known = seen.get(vmid, {"config": {}})
        config = {**known["config"], **entry.get("config", {})}
        seen[vmid] = {**known, **entry, "config": {key: value for key, value in config.items() if value is not None}}
    containers = {
        vmid: LxcContainer(vmid, entry.get("status", "stopped"), entry["config"]) for vmid, entry in seen.items()
    }
    found = verify.findings(WANT, ProxmoxSeen(containers, frozenset(containers)))
    return {finding.subject: finding for finding in found}


def test_a_healthy_agent_passes_all_checks() -> None:
    found = findings()
    assert [(name, finding.ok) for name, finding in found.items()] == [("machine", True), ("state.owner", True)]
    assert found["machine"].evidence == "container 105 (hermes) is marked as the machine of hermes and is running"
    assert found["state.owner"].evidence == f"{VOLUME} belongs to container 999 (hermes-pet), stopped and protected"


@pytest.mark.parametrize(
    ("broken", "line", "evidence"),
    [
        (
            {"ct105": {"status": "stopped"}},
            "machine",
            "container 105 (hermes) is marked as the machine of hermes and is stopped",
        ),
        ({"ct105": {"config": {"description": "mine"}}}, "machine", "no container is marked as the machine of hermes"),
        (
            {
                "ct106": {
                    "config": {"hostname": "twin", "description": MARK, "mp0": f"{VOLUME},mp=/var/lib/paddock/hermes"}
                }
            },
            "machine",
            "container 105 (hermes) and container 106 (twin) are marked as the machine of hermes",
        ),
        ({"ct999": {"status": "running"}}, "state.owner", "container 999 (hermes-pet) is the pet and is running"),
        (
            {"ct999": {"config": {"protection": 0}}},
            "state.owner",
            "container 999 (hermes-pet) is the pet and is not protected",
        ),
        (
            {"ct999": {"config": {"onboot": 1}}},
            "state.owner",
            "container 999 (hermes-pet) is the pet and would start with the node",
        ),
        ({"ct999": {"config": {"mp0": None}}}, "state.owner", "no pet has a volume of hermes"),
        (
            {"ct105": {"config": {"mp0": None}}},
            "state.owner",
            f"container 105 (hermes) does not mount {VOLUME} at /var/lib/paddock/hermes",
        ),
        (
            {"ct120": {"config": {"hostname": "thief", "mp3": f"{VOLUME},mp=/x"}}},
            "state.owner",
            f"container 120 (thief) also mounts {VOLUME}",
        ),
    ],
)
def test_one_defect_fails_one_check(broken: dict[str, Any], line: str, evidence: str) -> None:
    found = findings(**broken)
    failed = [finding for finding in found.values() if not finding.ok]
    assert line in [finding.subject for finding in failed]
    assert found[line].evidence == evidence
    assert all(finding.hint for finding in failed)
    # A machine without its mark counts as a foreign container that mounts the state.
    if broken != {"ct105": {"config": {"description": "mine"}}}:
        assert len(failed) == 1


def test_two_pets_with_a_volume_of_one_agent_fail_the_check() -> None:
    twin = {
        "hostname": "pet-2",
        "description": "paddock: v=2 role=pet",
        "mp0": "s:vm-998-disk-1,mp=/var/lib/paddock/home_hermes",
    }
    found = findings(ct998={"config": twin})["state.owner"]
    assert (found.ok, found.evidence) == (False, "several pets have a volume of hermes: 999, 998")
