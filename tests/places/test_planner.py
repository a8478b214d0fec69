"""Plans for a Proxmox node, as data: what was asked and seen in, steps out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.places import AdoptTarget, CacheWant, MachinePlan, MachineWant, TemplateWant
from paddock.places.proxmox.actions import RootWork
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.seen import Capacity, LxcContainer, ProxmoxSeen
from paddock.plan.step import Ref, Step
from paddock.recipes import agent_from
from paddock.spec.models import ProxmoxSpec
from paddock.spec.sizes import Size

NODE = {
    "url": "https://node:8006",
    "node": "pve",
    "token": {"env": "T"},
    "storage": "local-lvm",
    "base": "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst",
    "ssh": {"key": "id"},
}


@pytest.mark.parametrize("path", golden("plan/proxmox"))
def test_plan(path: Path) -> None:
    case = read_case(path)
    node = ProxmoxSpec.model_validate({**NODE, **case.get("node", {})})
    planner = NodePlanner(node, public_key="ssh-ed25519 AAAApublic paddock")
    seen = _seen(case)
    agent = {"kind": "hermes", "version": "0.19.0", "place": "home", **case.get("agent", {})}
    target = AdoptTarget(**case.get("wish", {}))
    if "wish" in case:  # the file is written first, so that every verb knows what it says then
        said = json.loads(json.dumps(planner.describe("hermes", target, seen).said))
        assert agrees(path, case, "said", said), said
        agent |= {key: v if isinstance(v, list) else {**agent.get(key, {}), **v} for key, v in said.items()}
    template = TemplateWant(case["template"], "hermes") if "template" in case else None
    spec = agent_from(agent)
    cache = CacheWant("/var/lib/docker", spec.container.data) if spec.container.data else None
    want = MachineWant("hermes", spec, spec.state.path or "/var/lib/paddock/hermes", template, cache)
    if "adopt" in case:
        found = _as_data(planner.adopt(want, target, seen))
        assert agrees(path, case, "adopt", found), found
    for verb in ("up", "down", "forget"):
        if verb in case:
            found = _as_data(getattr(planner, verb)(want, seen))
            assert agrees(path, case, verb, found), found


def _seen(case: dict[str, Any]) -> ProxmoxSeen:
    containers = {
        vmid: LxcContainer(
            vmid,
            entry.get("status", "stopped"),
            entry["config"],
            entry.get("address"),
            frozenset(entry.get("pending", ())),
        )
        for vmid, entry in (case.get("seen") or {}).items()
    }
    capacity: dict[str, Any] = {
        name: Size.parse(size) for name, size in case.get("room", {}).items() if name == "memory"
    }
    capacity["storages"] = {name: Size.parse(size) for name, size in case.get("room", {}).items() if name != "memory"}
    return ProxmoxSeen(
        containers,
        frozenset(containers) | frozenset(case.get("taken", ())),
        Capacity(**capacity),
        case.get("base_missing", False),
        case.get("storages", {}),
        elsewhere=case.get("elsewhere", {}),
    )


def _as_data(plan: MachinePlan) -> dict[str, Any]:
    data: dict[str, Any] = {
        "steps": [_step(step) for step in plan.steps],
        "manual_steps": [_step(step) for step in plan.manual_steps],
        "refusals": [asdict(refusal) for refusal in plan.refusals],
        "notes": list(plan.notes),
        "preinstalled": plan.preinstalled,
        "adopted": plan.adopted,
        "new_cache": plan.new_cache,
    }
    return {key: value for key, value in data.items() if value}


def _step(step: Step) -> dict[str, Any]:
    data = {
        "id": step.id,
        "title": step.title,
        "reason": step.reason,
        "risk": step.risk.value,
        type(step.action).__name__: {name: _plain(value) for name, value in vars(step.action).items()},
    }
    if isinstance(step.action, RootWork):  # the commands say it all
        data["RootWork"] = {"vmid": step.action.vmid}
    return data | ({"commands": list(step.commands)} if step.commands else {})


def _plain(value: Any) -> Any:
    if isinstance(value, Ref | Size):
        return str(value)
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, tuple) else value
