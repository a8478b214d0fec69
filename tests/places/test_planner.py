"""Golden plans for a Proxmox node: steps, actions and refusals, without their wording."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.file.agent_id import AgentId
from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.kinds import agent_from
from paddock.places.contract import Archive, CacheWant, MachineWant, TemplateWant
from paddock.places.proxmox.actions import RootWork
from paddock.places.proxmox.archive.plan import Saved
from paddock.places.proxmox.node.observation import Capacity, Listed, LxcContainer, ProxmoxSeen
from paddock.places.proxmox.planner import NodePlanner
from paddock.plan.actions import Ref
from paddock.plan.step import AdoptTarget, MachinePlan, Phase, Step

HERMES = AgentId("home", "hermes")
NODE = {
    "url": "https://node:8006",
    "node": "pve",
    "token": {"env": "T"},
    "storage": "local-lvm",
    "base": "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst",
    "ssh": {"key": "id"},
}


@dataclass(frozen=True)
class Inputs:
    """What a golden case gives to the planner."""

    planner: NodePlanner
    want: MachineWant
    target: AdoptTarget
    seen: ProxmoxSeen


def inputs(path: Path, case: dict[str, Any]) -> Inputs:
    """Read the inputs of a golden case; a case of `adopt` also expects the lines that go into the file first."""
    node = ProxmoxSpec.model_validate({**NODE, **case.get("node", {})})
    planner = NodePlanner(node, public_key="ssh-ed25519 AAAApublic paddock")
    seen = _seen(case)
    agent = {"kind": "hermes", "version": "0.19.0", "place": "home", **case.get("agent", {})}
    target = AdoptTarget(**case.get("target", {}))
    if "target" in case:
        said = json.loads(json.dumps(planner.describe(HERMES, target, seen).said))
        assert agrees(path, case, "said", said), said
        agent |= {key: v if isinstance(v, list) else {**agent.get(key, {}), **v} for key, v in said.items()}
    template = TemplateWant(case["template"], "hermes") if "template" in case else None
    spec = agent_from(agent)
    cache = CacheWant("/var/lib/docker", spec.container.data) if spec.container.data else None
    want = MachineWant(
        HERMES,
        spec,
        spec.state.path or "/var/lib/paddock/hermes",
        template,
        cache,
        formers=tuple(AgentId.parse(each) for each in case.get("formers", ())),
        beside_others=case.get("beside_others", False),
    )
    return Inputs(planner, want, target, seen)


def plans(given: Inputs, case: dict[str, Any]) -> dict[str, MachinePlan]:
    """Plan each verb that a golden case expects a plan for."""
    planner, want, seen = given.planner, given.want, given.seen
    found: dict[str, MachinePlan] = {
        verb: getattr(planner, verb)(want, seen) for verb in ("up", "down", "forget", "clear_readers") if verb in case
    }
    if "adopt" in case:
        found["adopt"] = planner.adopt(want, given.target, seen)
    if "save" in case:
        found["save"] = planner.save(want, {"agent": str(HERMES), "kind": "hermes", "version": "0.19.0"}, seen)
    if "read" in case:
        saved = Saved.parse(HERMES, case["saved"])
        assert saved
        found["read"] = planner.read(want, Archive(case["archive"], datetime.now(UTC), 1, {}), saved, seen)
    return found


@pytest.mark.parametrize("path", golden("plan/proxmox"))
def test_plan(path: Path) -> None:
    case = read_case(path)
    for verb, plan in plans(inputs(path, case), case).items():
        found = _as_data(plan)
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
    sizes = {name: Size.parse(size) for name, size in case.get("capacity", {}).items()}
    memory = sizes.pop("memory", None)
    return ProxmoxSeen(
        containers,
        frozenset(containers) | frozenset(case.get("taken", ())),
        Capacity(memory, sizes, case.get("networks", {})),
        case.get("base_missing", False),
        case.get("storages", {}),
        node="pve",
        cluster={
            **{vmid: Listed("pve") for vmid in containers},
            **{vmid: Listed(node, name) for vmid, (name, node) in case.get("cluster", {}).items()},
        },
    )


def _as_data(plan: MachinePlan) -> dict[str, Any]:
    data: dict[str, Any] = {
        "steps": [_step(step) for step in plan.steps if step.phase is Phase.MACHINE],
        "manual_steps": [_step(step) for step in plan.steps if step.phase is Phase.MANUAL],
        "proof_steps": [_step(step) for step in plan.steps if step.phase is Phase.PROOF],
        "refusals": [refusal.code for refusal in plan.refusals],
        "notes": len(plan.notes),
        "preinstalled": plan.after.preinstalled,
        "adopted": plan.after.adopted_state,
        "new_cache": plan.after.new_engine_data,
    }
    return {key: value for key, value in data.items() if value}


def _step(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": step.id,
        "risk": step.risk.value,
        type(step.action).__name__: {name: _plain(value) for name, value in vars(step.action).items()},
    }
    if step.needs_place_lock:
        data["needs_place_lock"] = True
    if isinstance(step.action, RootWork):  # its commands hold all other fields
        data["RootWork"] = {"vmid": step.action.vmid}
    return data | ({"commands": list(step.commands)} if step.commands else {})


def _plain(value: Any) -> Any:
    if isinstance(value, AgentId | Ref | Size):
        return str(value)
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, tuple) else value
