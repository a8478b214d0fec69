"""The place ``proxmox``: one node, reached with a token; the state is a volume of the pet, the machine is cattle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from paddock.errors import BadInput
from paddock.guests import Guest, Unreachable
from paddock.guests.ssh import SshGuest
from paddock.places import (
    AdoptTarget,
    Description,
    Finding,
    Got,
    Machine,
    MachinePlan,
    MachineWant,
    TemplateInfo,
    TemplateWant,
)
from paddock.places.proxmox import access, observe, privileges, tls, verify, visibility
from paddock.places.proxmox import template as templates
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY
from paddock.places.proxmox.cattle import is_adopted
from paddock.places.proxmox.claim import Holder
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.expected import ExpectedContainers
from paddock.places.proxmox.mark import Mark, Role
from paddock.places.proxmox.pet import find_pet, holds_adopted_state, state_in
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.reach import HostKeyTrust, Reacher
from paddock.places.proxmox.root_work import owner_on_node, root_features
from paddock.places.proxmox.root_worker import RootWorker
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.places.proxmox.worker import Worker
from paddock.plan.step import Action, Refusal
from paddock.spec.models import MachineSpec, ProxmoxSpec

_BOOT_SECONDS: Final = 30


class ProxmoxPlace:
    """Observes a node, plans for it and performs the steps."""

    mounts_state = True
    account_home = None
    keeps_machine = False

    def __init__(
        self, spec: ProxmoxSpec, folder: Path, reporter: Callable[[str], None], *, patient: bool = True
    ) -> None:
        key = folder / spec.ssh.key.expanduser()
        ca = folder / spec.ca.expanduser() if spec.ca else None
        self._planner = NodePlanner(spec, _public_key(key))
        token = spec.token.read(folder)
        self._token_id = token.reveal().partition("=")[0]  # the name of a token is no secret
        self._spec = spec
        self._folder = folder
        self._client = Client(spec.url, spec.node, token, tls.context(spec.url, ca, spec.fingerprint))
        self._reacher = Reacher(self._client, key, spec.ssh.jump, reporter)
        self._root = _root_guest(spec.ssh.root) if spec.ssh.root else None
        self._root_worker = RootWorker(self._client, self._root, reporter, patient=patient)
        self._holder = Holder()
        self._reporter = reporter

    @cached_property
    def people(self) -> Sequence[str]:
        return [line for key in self._spec.ssh.people for line in key.lines(self._folder)]

    @property
    def identity(self) -> str:
        return f"{self._spec.url.rstrip('/').lower()} {self._spec.node}"

    def close(self) -> None:
        self._holder.close()
        self._client.close()

    def template(self, label: str, contents: str, machine: MachineSpec) -> TemplateWant | None:
        return self._planner.template(label, contents, machine)

    def observe(self, agent: str | None = None) -> ProxmoxSeen:
        return observe.observe(self._client, self._spec, agent, self._reporter, str(self._holder))

    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.up(want, seen)

    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.down(want, seen)

    def forget(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.forget(want, seen)

    def doubts(self, want: MachineWant, seen: ProxmoxSeen) -> Sequence[Refusal]:
        return list(visibility.refusals(self._client, want, seen))

    def without_machine(self, want: MachineWant, seen: ProxmoxSeen) -> ProxmoxSeen:
        return seen.without(seen.cattle_of(want.agent))

    def lacking(self, actions: Sequence[Action], seen: ProxmoxSeen) -> Sequence[str]:
        wanted = list(privileges.needed(actions, self._spec.node, self._spec.storage, seen))
        held = self._client.get("/access/permissions") if wanted else {}
        return privileges.as_lines(privileges.missing(wanted, held))

    def describe(self, agent: str, target: AdoptTarget, seen: ProxmoxSeen) -> Description:
        return self._planner.describe(agent, target, seen)

    def adopt(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.adopt(want, target, seen)

    def visit(self, want: MachineWant, target: AdoptTarget, seen: ProxmoxSeen) -> Guest | None:
        container = seen.containers.get(target.vmid or 0)
        if container is None:
            return None
        if not container.running and any(holds_adopted_state(want, pet) for pet in seen.with_role(Role.PET)):
            return None  # an adoption that had looked at it has stopped it, and was cut off
        if not container.running:
            raise Unreachable(f"{container.name} is stopped", hint="start it; `adopt` stops it only where it has to")
        keys = container.mark.host_keys if container.mark else ()
        known = HostKeyTrust(keys, want.spec.machine.host_key, adopted_by=want.agent)
        return self._reacher.visit(f"container-{container.vmid}", container.vmid, known)

    def rebuild(self, want: MachineWant, seen: ProxmoxSeen, *, anew: bool) -> MachinePlan:
        return self._planner.rebuild(want, seen, anew=anew)

    def templates(self, seen: ProxmoxSeen) -> Sequence[TemplateInfo]:
        return templates.listed(seen)

    def remove_template(self, info: TemplateInfo) -> None:
        known = ExpectedContainers(ProxmoxSeen({}, frozenset()), {})
        known.record_created(info.vmid, Mark(Role.TEMPLATE, template=info.template, epoch=info.epoch))
        self._worker(known).destroy(info.vmid)

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        version = self._client.get("/version")["version"]
        seen = self.observe()
        pets = [pet.vmid for want in wants if (pet := find_pet(want, seen))]
        pets += [want.spec.state.pet.vmid for want in wants if want.spec.state.pet.vmid]
        storages = [s for want in wants for s in (want.spec.machine.storage, want.spec.state.storage) if s]
        bridges = [want.spec.machine.net.bridge for want in wants if want.spec.machine.net.bridge]
        wanted = access.grants(self._spec, pets, storages, bridges)
        paths = dict.fromkeys(grant.path for grant in wanted)
        held = {path: self._client.get("/access/permissions", {"path": path}).get(path, {}) for path in paths}
        lacks = list(access.missing(wanted, held))
        findings = [Finding("reached", True, f"{self._spec.url} runs Proxmox VE {version}")]
        for grant in wanted:
            without = [privilege for other, privilege in lacks if other == grant]
            evidence = f"lacks {', '.join(without)}" if without else "all there"
            findings.append(Finding(f"{grant.work} on {grant.path}", not without, evidence))
        works = dict.fromkeys(grant.work for grant, _ in lacks)
        remedies = [line for work in works for line in (f"# {work}", *access.commands(work, wanted, self._token_id))]
        for want in wants:
            findings += self._root_findings(want, seen)
        return findings, ["as root on the node:", *remedies] if remedies else []

    def _root_findings(self, want: MachineWant, seen: ProxmoxSeen) -> Iterator[Finding]:
        """What of an agent is for root alone, and who will do it."""
        things = [*(entry.host for entry in want.spec.mounts), *root_features(want.spec.machine.features)]
        if not things:
            return
        subject, shown = f"root's part of {want.agent}", ", ".join(things)
        plan = self._planner.up(want, seen)
        if plan.refusals:
            yield Finding(subject, False, plan.refusals[0].reason)
        elif not plan.manual_steps:
            yield Finding(subject, True, f"{shown}: all there")
        elif self._root is None:
            yield Finding(subject, True, f"{shown}: `up` will ask a person at the node's shell, without ssh.root")
        else:
            yield self._root_reached(self._root, subject, shown)

    @staticmethod
    def _root_reached(root: Guest, subject: str, shown: str) -> Finding:
        try:
            ended = root.run(["sh", "-c", "command -v pct && id -u"], deadline=30)
        except Unreachable as error:
            return Finding(subject, False, error.message)
        if not ended.ok or ended.out.split()[-1] != "0":
            return Finding(subject, False, f"{root.name} is not root of a Proxmox node: {shown} needs one")
        return Finding(subject, True, f"{shown}: `up` does it as {root.name}")

    def verify(self, want: MachineWant, seen: ProxmoxSeen) -> Sequence[Finding]:
        return verify.findings(want, seen)

    def notes(self, want: MachineWant, seen: ProxmoxSeen) -> str:
        return verify.notes(want, seen)

    def machine(self, want: MachineWant, seen: ProxmoxSeen) -> Machine:
        states = [mount for pet in seen.with_role(Role.PET) if (mount := state_in(want, pet))]
        state = states[0].volume if states else "none"
        cattle = next(iter(seen.cattle_of(want.agent)), None)
        hostname = want.spec.machine.hostname or want.agent
        if cattle is None:
            return Machine(want.agent, "absent", None, state, hostname=hostname, owner=owner_on_node(want, None))
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
        )

    def guest(self, want: MachineWant, seen: ProxmoxSeen, got: Got) -> Guest | None:
        cattle = next(iter(seen.cattle_of(want.agent)), None)
        address = got.get(ADDRESS.name) or (cattle.address if cattle else None)
        on_record = cattle.mark.host_keys if cattle and cattle.mark else ()
        keys = (got[HOST_KEY.name],) if HOST_KEY.name in got else on_record
        return self._reacher.guest(want.agent, address, keys) if address and keys else None

    def perform(self, action: Action, seen: ProxmoxSeen, got: Got) -> Got:
        return self._worker(ExpectedContainers(seen, got)).perform(action, got)

    def _worker(self, known: ExpectedContainers) -> Worker:
        return Worker(self._client, self._reacher, self._root_worker, self._reporter, known, self._holder)


def _root_guest(destination: str) -> SshGuest:
    """The node's own shell; the person's ssh knows how to get there and whom to trust."""
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
