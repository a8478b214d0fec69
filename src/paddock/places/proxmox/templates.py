"""The capability ``templates`` of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paddock.frozen import frozen
from paddock.places import MachineWant, TemplateInfo, TemplateWant
from paddock.places.proxmox import template
from paddock.places.proxmox.actions import Shutdown
from paddock.places.proxmox.expected import ExpectedContainers
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.places.proxmox.worker import Worker
from paddock.plan.machine import MachinePlan
from paddock.spec.models import MachineSpec


@frozen
class NodeTemplates:
    """Templates of one node; they are containers that Proxmox clones."""

    planner: NodePlanner
    worker: Callable[[ExpectedContainers], Worker]

    def want(self, label: str, contents: str, machine: MachineSpec) -> TemplateWant | None:
        return self.planner.template(label, contents, machine)

    def plan(self, want: MachineWant, seen: ProxmoxSeen, *, rebuild: bool) -> MachinePlan:
        return self.planner.build_template(want, seen, rebuild=rebuild)

    def listed(self, seen: ProxmoxSeen) -> Sequence[TemplateInfo]:
        return template.listed(seen)

    def remove(self, info: TemplateInfo, seen: ProxmoxSeen) -> None:
        worker = self.worker(ExpectedContainers(seen, {}))
        if seen.containers[info.number].running:  # a builder; a template never runs
            worker.perform(Shutdown(info.number, template.CLEAR_SECONDS), {})
        worker.destroy(info.number)
