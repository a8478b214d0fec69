"""The capability ``doctor`` of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from paddock.base import clock
from paddock.base.frozen import frozen
from paddock.channels import Guest, Unreachable
from paddock.file.models.place import Reach
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import Finding, MachineWant
from paddock.places.proxmox.access import roles
from paddock.places.proxmox.access.privileges import as_lines
from paddock.places.proxmox.actions import CannotPlan
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import ApiError
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.observation import Pool, ProxmoxSeen
from paddock.places.proxmox.pet.plan import find_pet
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.root.work import root_features
from paddock.places.proxmox.template import cloning
from paddock.plan.step import Phase

_TESTED: Final = "9"  # the major version of Proxmox VE
_SOON: Final = timedelta(days=30)
_SHOWN: Final = 6


@frozen
class NodeDoctor:
    """Examines the node's version, the token's privileges and the work that only root can do."""

    client: Client
    node: ProxmoxSpec
    token_id: str
    planner: NodePlanner
    root: Guest | None  # the node's shell, if the file names it
    observe: Callable[[], ProxmoxSeen]

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        version = str(self.client.get("/version")["version"])
        findings = [Finding("reached", True, f"{self.node.url} runs Proxmox VE {version}")]
        findings += [*_version(version), *self._expiry(), *self._certificate()]
        seen = self.observe()
        pets = [pet for want in wants if (pet := _pet(want, seen))]
        storages = [s for want in wants for s in (want.spec.machine.storage, want.spec.state.storage) if s]
        bridges = [want.spec.machine.net.bridge for want in wants if want.spec.machine.net.bridge]
        backups = [want.spec.backup.to.proxmox for want in wants if want.spec.backup]
        archives = [each.storage for each in backups if each]
        zones = network.zones(self.client)
        unknown = [
            name for name in sorted({self.node.bridge, *bridges}) if network.may_be_vnet(self.client, name, zones)
        ]
        wanted = roles.grants(self.node, pets, storages, bridges, archives, zones)
        not_known = {network.path(name, zones) for name in unknown}
        wanted = [grant for grant in wanted if grant.path not in not_known]
        wanted += [roles.looking_at_vnets()] if unknown else []
        paths = dict.fromkeys(grant.path for grant in wanted)
        held = {path: self.client.get("/access/permissions", {"path": path}).get(path, {}) for path in paths}
        lacks = list(roles.missing(wanted, held))
        setup_needed = _setup_is_needed(wants, seen)
        if self.root and self.node.ssh.reach is Reach.PCT:
            findings.append(_root_reached(self.root, "reach", "pct exec"))
        findings += self._pools(seen)
        for grant in wanted:
            without = [privilege for other, privilege in lacks if other == grant]
            findings.append(_granted(grant, without, needed_now=setup_needed))
        sees_all = "SDN.Audit" in held.get(network.TOP, ())
        findings += [_unknown_bridge(name, self.node.node, sees_all=sees_all) for name in unknown]
        findings += self._excess(wanted, seen)
        findings += self._templates(wants, seen)
        works = dict.fromkeys(grant.work for grant, _ in lacks if grant.work == roles.DAILY or setup_needed)
        remedies = roles.pool_commands(seen.hidden.pools)
        remedies += [line for work in works for line in (f"# {work}", *roles.commands(work, wanted, self.token_id))]
        for want in wants:
            findings.append(_out_of_reach(want))
            findings += self._root_findings(want, seen)
        return findings, ["as root on the node:", *remedies] if remedies else []

    def _pools(self, seen: ProxmoxSeen) -> Iterator[Finding]:
        pools = self.node.pools
        if pools is None:
            cost = "the token may destroy every container that its roles reach, and anyone who may edit notes can forge"
            yield Finding("pools", True, f"none: {cost} the mark of an agent's machine or pet", warns=True)
        for name in (pools.machines, pools.state) if pools else ():
            hidden = sorted(vmid for vmid, pool in seen.hidden.members.items() if pool == name)
            if name in seen.hidden.pools:
                yield Finding(f"pool {name}", False, "does not exist, or the token may not list its members")
            elif hidden:
                yield Finding(f"pool {name}", False, f"the token may not read {', '.join(map(str, hidden))} in it")
            else:
                yield Finding(f"pool {name}", True, "every member can be read")

    def _excess(self, wanted: Sequence[roles.Grant], seen: ProxmoxSeen) -> Iterator[Finding]:
        members = [c.vmid for c in seen.containers.values() if c.pool in (Pool.MACHINES, Pool.STATE)]
        more = as_lines(roles.excess(wanted, self.client.get("/access/permissions"), members))
        if more:
            shown = "; ".join(more[:_SHOWN]) + (f"; and {len(more) - _SHOWN} more" if len(more) > _SHOWN else "")
            yield Finding("token", True, f"may do more than it needs: {shown}", warns=True)

    def _templates(self, wants: Sequence[MachineWant], seen: ProxmoxSeen) -> Iterator[Finding]:
        """Yield the cost of a new machine, if the storage makes no linked clones."""
        storage, kind = self.node.storage, seen.capacity.types.get(self.node.storage, "")
        if any(want.template for want in wants) and (slow := cloning.cost(kind)):
            kept = cloning.has_templates(kind)
            hint = None if kept else "write `template: none` for this place, or use another storage"
            yield Finding(f"storage {storage}", kept, f"{kind} has {slow}", hint, warns=kept)

    def _expiry(self) -> Iterator[Finding]:
        """Yield a warning if the token ends soon. Few tokens may read that: it takes Sys.Audit on /access/groups."""
        user, _, name = self.token_id.partition("!")
        try:
            token = self.client.get(f"/access/users/{quote(user, safe='@')}").get("tokens", {}).get(name, {})
        except ApiError:
            return
        expire = int(token.get("expire", 0))
        ends = datetime.fromtimestamp(expire, UTC)
        if expire and ends - clock.now() < _SOON:
            yield Finding("token", True, f"expires on {ends:%Y-%m-%d}: create a new one before", warns=True)

    def _certificate(self) -> Iterator[Finding]:
        """Yield a warning if the pinned certificate is about to be renewed: its fingerprint changes then."""
        if self.node.fingerprint is None:
            return
        try:
            listed: list[dict[str, Any]] = self.client.get(f"/nodes/{self.client.node}/certificates/info")
        except ApiError:
            return
        for entry in listed:
            ends = datetime.fromtimestamp(int(entry.get("notafter", 0)), UTC)
            if str(entry.get("fingerprint", "")).upper() == self.node.fingerprint and ends - clock.now() < _SOON:
                renewal = "Proxmox renews it two weeks before, and its fingerprint changes then"
                yield Finding("certificate", True, f"expires on {ends:%Y-%m-%d}; {renewal}: use ca instead", warns=True)

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


def _version(version: str) -> Iterator[Finding]:
    if version.partition(".")[0] != _TESTED:
        evidence = f"this Paddock was tested with Proxmox VE {_TESTED}, never with {version}"
        yield Finding("version", True, evidence, warns=True)


def _unknown_bridge(name: str, node: str, *, sees_all: bool) -> Finding:
    hint = "the lines below let the token see all SDN vnets; then run this command again, for the path in its zone"
    if sees_all:
        hint = "write another machine.net.bridge, or another bridge of the place"
    return Finding(f"bridge {name}", False, f"the token sees no bridge of {node} and no SDN vnet of this name", hint)


def _out_of_reach(want: MachineWant) -> Finding:
    """Say that the token can delete the state, and whether a backup is out of its reach.

    A machine can mount a volume only if the token has VM.Config.Disk on the owner. With it, Proxmox also lets a token
    reassign the volume of a protected pet and delete it, or use it as the root disk of another container.
    """
    can = "whoever has the token can delete or overwrite it"
    to = want.spec.backup.to if want.spec.backup else None
    subject = f"memory of {want.agent}"
    if to is None:
        return Finding(subject, True, f"{can}, and there is no backup", warns=True)
    if to.proxmox:
        also = f"and its backups on {to.proxmox.storage}: keep one in a folder or with restic"
        return Finding(subject, True, f"{can}, {also}", warns=True)
    return Finding(subject, True, f"{can}, but not its backups")


def _pet(want: MachineWant, seen: ProxmoxSeen) -> int | None:
    """Return the number of the agent's pet, or the number that the file gives it."""
    try:
        pet = find_pet(want, seen)
    except CannotPlan:
        pet = None  # `up` refuses, and says why
    return pet.vmid if pet else want.spec.state.pet.vmid


def _setup_is_needed(wants: Sequence[MachineWant], seen: ProxmoxSeen) -> bool:
    """Whether the next `up` creates a pet or downloads the base archive."""
    try:
        return seen.base_missing or not all(find_pet(want, seen) for want in wants)
    except CannotPlan:
        return True


def _granted(grant: roles.Grant, without: Sequence[str], *, needed_now: bool) -> Finding:
    subject = f"{grant.work} on {grant.path}"
    if not without:
        return Finding(subject, True, "all granted")
    lacks = f"lacks {', '.join(without)}"
    if grant.work == roles.SETUP and not needed_now:
        return Finding(subject, True, f"{lacks}, which the agents of this file do not need while their pets exist")
    return Finding(subject, False, lacks)


def _root_reached(root: Guest, subject: str, shown: str) -> Finding:
    try:
        ended = root.run(["sh", "-c", "command -v pct && id -u"], deadline=30)
    except Unreachable as error:
        return Finding(subject, False, error.message)
    if not ended.ok or ended.out.split()[-1] != "0":
        return Finding(subject, False, f"{root.name} is not root on a Proxmox node, which {shown} needs")
    return Finding(subject, True, f"{shown}: `up` does it as {root.name}")
