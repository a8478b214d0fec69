"""The place ``proxmox``: one node, reached with an API token. The pet owns the state volume; the machine is cattle."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.channels import Guest, Unreachable, shared
from paddock.channels.connection import end_connections
from paddock.channels.ssh import SshGuest
from paddock.file.agent_id import AgentId
from paddock.file.models.place import Reach
from paddock.file.models.whole import MachineSpec, ProxmoxSpec
from paddock.places.contract import (
    Description,
    Finding,
    Got,
    Machine,
    MachineWant,
    Remnant,
    TemplateInfo,
    TemplateWant,
    Traits,
)
from paddock.places.proxmox.access import privileges, visibility
from paddock.places.proxmox.access.doctor import NodeDoctor
from paddock.places.proxmox.access.privileges import Need
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY, REACHED, REACHED_NAME, ProxmoxAction, Shutdown
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError
from paddock.places.proxmox.archive.perform import NodeArchives
from paddock.places.proxmox.machine import verify
from paddock.places.proxmox.machine.plan import is_adopted
from paddock.places.proxmox.machine.reach import HostKeyTrust, Reacher
from paddock.places.proxmox.node import network, notes, observe
from paddock.places.proxmox.node.containers import Run
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Role
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.node.observe import SharedReading
from paddock.places.proxmox.pet.plan import holds_adopted_state, owners_of_state, state_in
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.rename.identity import as_renamed
from paddock.places.proxmox.root.perform import RootWorker
from paddock.places.proxmox.root.work import owner_on_node
from paddock.places.proxmox.safety.leftovers import remnants
from paddock.places.proxmox.safety.same_container import ExpectedContainers
from paddock.places.proxmox.template import plan as template
from paddock.places.proxmox.worker import Worker
from paddock.plan.actions import Action
from paddock.plan.step import AdoptTarget, Goal, MachinePlan, Refusal

_BOOT_SECONDS: Final = 30


class ProxmoxPlace:
    """Observes a node, plans for it and performs the steps."""

    def __init__(self, spec: ProxmoxSpec, folder: Path, say: Callable[[str], None], *, patient: bool = True) -> None:
        key = folder / spec.ssh.key.expanduser()
        ca = folder / spec.ca.expanduser() if spec.ca else None
        self._planner = NodePlanner(spec, _public_key(key))
        token = spec.token.read(folder)
        self._token_id = token.reveal().partition("=")[0]  # the name of a token is no secret
        self._spec = spec
        self._folder = folder
        self._client = Client(spec.url, spec.node, token, tls.context(spec.url, ca, spec.fingerprint))
        self._root = _root_guest(spec.ssh.root) if spec.ssh.root else None
        through = self._root if spec.ssh.reach is Reach.PCT else None
        self._reacher = Reacher(self._client, key, spec.ssh.jump, through)
        self._root_worker = RootWorker(self._client, self._root, say, patient=patient)
        self._holder = Holder()
        self._shared = SharedReading(
            self._client, lambda: observe.read(self._client, self._spec, self._holder, asks_networks=True)
        )
        self._say = say

    @property
    def traits(self) -> Traits:
        return Traits(self._spec.identity, mounts_state=True, keeps_machine=False)

    @property
    def templates(self) -> NodeTemplates:
        return NodeTemplates(self._planner, self._worker)

    @property
    def adoption(self) -> NodeAdoption:
        return NodeAdoption(self._planner, self._reacher)

    @property
    def archives(self) -> NodeArchives:
        return NodeArchives(self._client, self._planner, self._reacher, self._holder)

    @property
    def doctor(self) -> NodeDoctor:
        return NodeDoctor(self._client, self._spec, self._token_id, self._planner, self._root, self.observe)

    @property
    def permissions(self) -> NodePermissions:
        return NodePermissions(self._client, self._spec)

    def close(self) -> None:
        self._reacher.close()
        self._holder.close()
        self._client.close()

    def account_home(self) -> None:
        return None

    def login_keys(self) -> Sequence[str]:
        return [line for key in self._spec.ssh.people for line in key.lines(self._folder)]

    def observe(self, want: MachineWant | None = None) -> ProxmoxSeen:
        return observe.observe(self._client, self._spec, want, self._say, self._holder)

    def observed(self, want: MachineWant | None = None) -> ProxmoxSeen | None:
        try:
            return self._shared.seen(want)
        except ApiError:
            return None  # an observation of its own gives the reason

    def plan(self, goal: Goal, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        match goal:
            case Goal.UP:
                return self._planner.up(want, seen)
            case Goal.DOWN:
                return self._planner.down(want, seen)
            case Goal.CYCLE:
                return self._planner.cycle(want, seen)
            case Goal.FORGET:
                return self._planner.forget(want, seen)
            case _:
                assert_never(goal)

    def perform(self, action: ProxmoxAction, seen: ProxmoxSeen, got: Got) -> Got:
        self._shared.end()
        shared.end()
        end_connections()
        return self._worker(ExpectedContainers(seen, got)).perform(action, got)

    def _worker(self, known: ExpectedContainers) -> Worker:
        run = Run(self._client, self._say, known, self._holder, self._look)
        return Worker(run, self._reacher, self._root_worker)

    def _look(self) -> ProxmoxSeen:
        return observe.look(self._client, self._spec, self._holder)

    def guest(self, want: MachineWant, seen: ProxmoxSeen, got: Got) -> Guest | None:
        seen, _ = as_renamed(want, seen)
        cattle = next(iter(seen.cattle_of(want.id)), None)
        address = got.get(ADDRESS.name) or (cattle.address if cattle else None)
        on_record = cattle.mark.host_keys if cattle and cattle.mark else ()
        keys = (got[HOST_KEY.name],) if HOST_KEY.name in got else on_record
        vmid = int(got.get(REACHED.name, cattle.vmid if cattle else 0))
        name = got.get(REACHED_NAME.name, want.agent)
        guest = self._reacher.guest(name, vmid, address, keys) if vmid and address and keys else None
        if name == want.agent:  # and not a builder of its template
            shared.remember(f"{self._spec.identity} {want.id}", guest)
        return guest

    def other_run(self, want: MachineWant, seen: ProxmoxSeen) -> str | None:
        now = self._look()
        for machine in now.machines_of(want.id):
            if (claim := now.claim_of_another(machine)) is not None:
                return claim.over(machine.name)
        known = {self._holder.name, *(_maker(machine) for machine in seen.machines_of(want.id))}
        settled = now.cattle_of(want.id)
        for machine in settled:
            if (maker := _maker(machine)) not in known:
                return f"{maker} created machine {machine.vmid} for {want.agent} meanwhile"
        return None if settled else f"another run has removed the machine of {want.agent}"

    def machine(self, want: MachineWant, seen: ProxmoxSeen) -> Machine:
        seen, former = as_renamed(want, seen)
        before = former.agent if former else None
        states = [mount for pet in owners_of_state(want, seen) if (mount := state_in(want, pet))]
        state = states[0].volume if states else "none"
        notes = verify.notes(want, seen)
        cattle = next(iter(seen.cattle_of(want.id)), None)
        if cattle is None:
            hostname, owner = want.spec.machine.hostname or want.agent, owner_on_node(want, None)
            return Machine(
                want.agent, "absent", None, state, hostname=hostname, owner=owner, notes=notes, former=before
            )
        return Machine(
            name=str(cattle.vmid),
            status=cattle.status,
            address=cattle.address,
            state=state,
            uptime=cattle.uptime,
            starting=cattle.running and cattle.uptime < _BOOT_SECONDS,
            made_from=cattle.mark.made_from if cattle.mark and cattle.mark.made_from else "-",
            hostname=str(cattle.config.get("hostname", "-")),
            adopted=is_adopted(cattle),
            owner=owner_on_node(want, cattle),
            number=cattle.vmid,
            notes=notes,
            former=before,
        )

    def remnants(self, project: str, agents: Collection[str], seen: ProxmoxSeen) -> Sequence[Remnant]:
        return remnants(project, agents, seen)

    def verify(self, want: MachineWant, seen: ProxmoxSeen) -> Sequence[Finding]:
        return verify.findings(want, seen)


def open_place(
    name: str, spec: ProxmoxSpec, folder: Path, say: Callable[[str], None], *, patient: bool
) -> ProxmoxPlace:
    """Open the place; it is known by its node, not by its name in the file."""
    return ProxmoxPlace(spec, folder, say, patient=patient)


def _maker(machine: LxcContainer) -> str | None:
    return machine.mark.maker if machine.mark else None


def _root_guest(destination: str) -> SshGuest:
    """Return the node's shell. The person's own ssh configuration says how to reach and trust it."""
    user, _, address = destination.rpartition("@")
    host, port = address, 22
    if match := re.fullmatch(r"(\[.+\]|[^:]+):(\d+)", address):
        host, port = match[1].strip("[]"), int(match[2])
    return SshGuest(destination, host, user or "root", port)


def _public_key(private: Path) -> str:
    public = private.with_name(private.name + ".pub")
    try:
        return public.read_text().strip()
    except OSError:
        make = f"ssh-keygen -y -f {private} > {public}" if private.exists() else f"ssh-keygen -t ed25519 -f {private}"
        raise BadInput(f"there is no public key {public}", hint=make) from None


@frozen
class NodeAdoption:
    """Containers and volumes of one node that somebody else created."""

    planner: NodePlanner
    reacher: Reacher

    def describe(self, agent: AgentId, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
        return self.planner.describe(agent, target, seen)

    def plan(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> MachinePlan:
        return self.planner.adopt(want, target, seen)

    def visit(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> Guest | None:
        container = seen.containers.get(target.machine or 0)
        if container is None:
            return None
        begun = any(holds_adopted_state(want, pet) for pet in seen.with_role(Role.PET))
        if not container.running and (begun or notes.has_restart_note(container.notes)):
            return None  # an earlier run examined and stopped it, and was interrupted
        if not container.running:
            raise Unreachable(f"{container.name} is stopped", hint="start it; `adopt` stops it only if it has to")
        keys = container.mark.host_keys if container.mark else ()
        known = HostKeyTrust(keys, want.spec.machine.host_key, adopted_by=want.agent)
        return self.reacher.visit(f"container-{container.vmid}", container.vmid, known)


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


@frozen
class NodePermissions:
    """Reads the token's permissions from the node."""

    client: Client
    node: ProxmoxSpec

    def hidden_machines(self, want: MachineWant, seen: ProxmoxSeen) -> Sequence[Refusal]:
        return list(visibility.refusals(self.client, self.node, want, seen))

    def missing(self, actions: Sequence[Action], seen: ProxmoxSeen) -> Sequence[str]:
        wanted = list(privileges.needed(actions, self.node, seen))
        held = self.client.get("/access/permissions") if wanted else {}
        return privileges.as_lines(privileges.missing(self._in_zones(wanted), held))

    def _in_zones(self, wanted: Sequence[Need]) -> Sequence[Need]:
        """Return the needs with the paths of SDN vnets. A name of which the token sees nothing may be one."""
        found, zones = [], None
        for need in wanted:
            if need.path.startswith(f"{network.LOCAL}/"):
                zones = network.zones(self.client) if zones is None else zones
                bridge, _, tag = need.path.removeprefix(f"{network.LOCAL}/").partition("/")
                path = network.path(bridge, zones)
                if network.may_be_vnet(self.client, bridge, zones):
                    path = f"{network.TOP}/ZONE/{bridge}, or on {path} if it is no SDN vnet"
                found.append(replace(need, path="/".join(filter(None, (path, tag)))))
            else:
                found.append(need)
        return found
