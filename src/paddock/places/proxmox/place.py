"""The place ``proxmox``: one node, reached with an API token. The pet owns the state volume; the machine is cattle."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from paddock.errors import BadInput
from paddock.guests import Guest, early
from paddock.guests.ssh import SshGuest
from paddock.places import Finding, Got, Machine, MachineWant, Remnant, Traits
from paddock.places.proxmox import observe, tls, verify
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY, REACHED, REACHED_NAME, ProxmoxAction
from paddock.places.proxmox.cattle import is_adopted
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import ApiError
from paddock.places.proxmox.expected import ExpectedContainers
from paddock.places.proxmox.holder import Holder
from paddock.places.proxmox.identity import as_renamed
from paddock.places.proxmox.pet import owners_of_state, state_in
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.reach import Reacher
from paddock.places.proxmox.remnants import remnants
from paddock.places.proxmox.root_work import owner_on_node
from paddock.places.proxmox.root_worker import RootWorker
from paddock.places.proxmox.seen import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.shared import SharedReading
from paddock.places.proxmox.templates import NodeTemplates
from paddock.plan.machine import Goal, MachinePlan
from paddock.spec.models import ProxmoxSpec
from paddock.spec.place import Reach

if TYPE_CHECKING:
    from paddock.places.proxmox.adoption import NodeAdoption
    from paddock.places.proxmox.archives import NodeArchives
    from paddock.places.proxmox.doctor import NodeDoctor
    from paddock.places.proxmox.permissions import NodePermissions
    from paddock.places.proxmox.worker import Worker

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
        from paddock.places.proxmox.adoption import NodeAdoption

        return NodeAdoption(self._planner, self._reacher)

    @property
    def archives(self) -> NodeArchives:
        from paddock.places.proxmox.archives import NodeArchives

        return NodeArchives(self._client, self._planner, self._reacher, self._holder)

    @property
    def doctor(self) -> NodeDoctor:
        from paddock.places.proxmox.doctor import NodeDoctor

        return NodeDoctor(self._client, self._spec, self._token_id, self._planner, self._root, self.observe)

    @property
    def permissions(self) -> NodePermissions:
        from paddock.places.proxmox.permissions import NodePermissions

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
        early.end()
        return self._worker(ExpectedContainers(seen, got)).perform(action, got)

    def _worker(self, known: ExpectedContainers) -> Worker:
        from paddock.places.proxmox.worker import Worker

        return Worker(self._client, self._reacher, self._root_worker, self._say, known, self._holder, self._look)

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
            early.remember(f"{self._spec.identity} {want.id}", guest)
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
