"""The capability ``doctor`` of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paddock.guests import Guest, Unreachable
from paddock.places import Finding, MachineWant
from paddock.places.proxmox import access
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.pet import find_pet
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.root_work import root_features
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.plan.step import Phase
from paddock.spec.models import ProxmoxSpec


@dataclass(frozen=True)
class NodeDoctor:
    """Examines the token's privileges and the work that only root can do."""

    client: Client
    node: ProxmoxSpec
    token_id: str
    planner: NodePlanner
    root: Guest | None  # the node's shell, if the file names it
    observe: Callable[[], ProxmoxSeen]

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        version = self.client.get("/version")["version"]
        seen = self.observe()
        pets = [pet.vmid for want in wants if (pet := find_pet(want, seen))]
        pets += [want.spec.state.pet.vmid for want in wants if want.spec.state.pet.vmid]
        storages = [s for want in wants for s in (want.spec.machine.storage, want.spec.state.storage) if s]
        bridges = [want.spec.machine.net.bridge for want in wants if want.spec.machine.net.bridge]
        wanted = access.grants(self.node, pets, storages, bridges)
        paths = dict.fromkeys(grant.path for grant in wanted)
        held = {path: self.client.get("/access/permissions", {"path": path}).get(path, {}) for path in paths}
        lacks = list(access.missing(wanted, held))
        findings = [Finding("reached", True, f"{self.node.url} runs Proxmox VE {version}")]
        for grant in wanted:
            without = [privilege for other, privilege in lacks if other == grant]
            evidence = f"lacks {', '.join(without)}" if without else "all granted"
            findings.append(Finding(f"{grant.work} on {grant.path}", not without, evidence))
        works = dict.fromkeys(grant.work for grant, _ in lacks)
        remedies = [line for work in works for line in (f"# {work}", *access.commands(work, wanted, self.token_id))]
        for want in wants:
            findings += self._root_findings(want, seen)
        return findings, ["as root on the node:", *remedies] if remedies else []

    def _root_findings(self, want: MachineWant, seen: ProxmoxSeen) -> Iterator[Finding]:
        """Yield whether the agent needs steps that only root can do, and who will do them."""
        things = [*(entry.host for entry in want.spec.mounts), *root_features(want.spec.machine.features)]
        if not things:
            return
        subject, shown = f"root's part of {want.agent}", ", ".join(things)
        plan = self.planner.up(want, seen)
        if plan.refusals:
            yield Finding(subject, False, plan.refusals[0].reason)
        elif not any(step.phase is Phase.MANUAL for step in plan.steps):
            yield Finding(subject, True, f"{shown}: done")
        elif self.root is None:
            yield Finding(subject, True, f"{shown}: `up` will ask a person at the node's shell, without ssh.root")
        else:
            yield _root_reached(self.root, subject, shown)


def _root_reached(root: Guest, subject: str, shown: str) -> Finding:
    try:
        ended = root.run(["sh", "-c", "command -v pct && id -u"], deadline=30)
    except Unreachable as error:
        return Finding(subject, False, error.message)
    if not ended.ok or ended.out.split()[-1] != "0":
        return Finding(subject, False, f"{root.name} is not root on a Proxmox node, which {shown} needs")
    return Finding(subject, True, f"{shown}: `up` does it as {root.name}")
