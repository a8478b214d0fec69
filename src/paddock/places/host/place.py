"""A Linux machine that exists already."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from paddock.base.computer import require_linux
from paddock.base.frozen import frozen
from paddock.channels import Guest, expect
from paddock.channels.local import LocalGuest
from paddock.channels.ssh import SshGuest
from paddock.file.agent_id import AgentId
from paddock.file.models.agent import RuntimeName
from paddock.file.models.whole import HostSpec, Scope
from paddock.places.contract import Description, Finding, Got, Machine, MachineWant, PlaceSeen, Remnant, Traits
from paddock.plan.actions import DeleteState, PlaceAction
from paddock.plan.step import AdoptTarget, Goal, MachineAfter, MachinePlan, Refusal, Risk, Step

_LOOK: Final = ("sh", "-c", "id -u; cat /proc/1/comm; [ ! -e /etc/NIXOS ] || echo nixos")


@frozen
class HostSeen(PlaceSeen):
    """The observation of a host, which is empty: the agent is observed through a guest."""


class HostPlace:
    """This machine or one over ssh. Nothing is created or destroyed there. The pet is the state directory."""

    templates = None
    archives = None
    permissions = None

    def __init__(self, name: str, spec: HostSpec, folder: Path) -> None:
        self._name = name
        self._spec = spec
        self._key = folder / spec.key.expanduser() if spec.key else None

    @property
    def traits(self) -> Traits:
        spec = self._spec
        where = f"{spec.address.lower()}:{spec.port}" if spec.address else "here"
        identity = f"{where} {spec.user}" if spec.scope is Scope.USER else where
        return Traits(identity, mounts_state=False, keeps_machine=True)

    @property
    def adoption(self) -> HostAdoption:
        return HostAdoption()

    @property
    def doctor(self) -> HostDoctor:
        return HostDoctor(self._spec, self._guest())

    def close(self) -> None:
        """Do nothing: a host keeps no connection open."""

    def account_home(self) -> str | None:
        if self._spec.scope is Scope.SYSTEM:
            return None
        return expect(self._guest(), "looking for the account's home", ["printenv", "HOME"]).strip()

    def login_keys(self) -> Sequence[str]:
        return ()

    def observe(self, want: MachineWant | None = None) -> HostSeen:
        return HostSeen()

    def observed(self, want: MachineWant | None = None) -> HostSeen:
        return HostSeen()

    def plan(self, goal: Goal, want: MachineWant, seen: HostSeen) -> MachinePlan:
        if goal is not Goal.FORGET:
            return MachinePlan()
        title = f"delete {want.state_path} on {self._name}"
        return MachinePlan([Step("state.delete", title, "a person asked to forget it", DeleteState(), Risk.RECREATES)])

    def perform(self, action: PlaceAction, seen: HostSeen, got: Got) -> NoReturn:
        raise AssertionError(f"a host has no actions of its own, so not {action}")

    def guest(self, want: MachineWant, seen: HostSeen, got: Got) -> Guest:
        return self._guest()

    def other_run(self, want: MachineWant, seen: HostSeen) -> None:
        return None

    def machine(self, want: MachineWant, seen: HostSeen) -> Machine:
        return Machine(
            name=self._name,
            status="running",
            address=self._spec.address or "local",
            state=want.state_path,
            hostname=self._spec.address or socket.gethostname(),
            owner=self._owner(want),
        )

    def remnants(self, project: str, agents: Collection[str], seen: HostSeen) -> Sequence[Remnant]:
        return []

    def verify(self, want: MachineWant, seen: HostSeen) -> Sequence[Finding]:
        return [Finding("machine", True, f"{self._spec.address or 'this machine'}, which Paddock did not create")]

    def _owner(self, want: MachineWant) -> str:
        """Return the account that owns the agent's files."""
        spec, user = self._spec, want.spec.user
        if spec.scope is Scope.USER:
            return spec.user if spec.address else getpass.getuser()
        return f"{user.uid}:{user.gid or user.uid}"

    def _guest(self) -> Guest:
        return guest_of(self._name, self._spec, self._key)


def open_place(name: str, spec: HostSpec, folder: Path, say: Callable[[str], None], *, patient: bool) -> HostPlace:
    """Open the place; it neither prints nor waits."""
    return HostPlace(name, spec, folder)


def guest_of(name: str, spec: HostSpec, key: Path | None) -> Guest:
    """Return a channel to a host. The path of the key is absolute."""
    if spec.address is None:
        require_linux("an agent on this machine", "name the address of a Linux host, or use a Proxmox node")
        return LocalGuest()
    keys = (spec.host_key,) if spec.host_key else ()
    return SshGuest(name, spec.address, spec.user, spec.port, key, keys, spec.jump)


class HostAdoption:
    """Adopts files that are on the host already."""

    def describe(self, agent: AgentId, target: AdoptTarget, seen: HostSeen) -> Description:
        return Description()

    def plan(self, want: MachineWant, target: AdoptTarget, seen: HostSeen) -> MachinePlan:
        if target != AdoptTarget():
            reason = "a host has neither containers nor volumes to adopt"
            hint = f"`paddock adopt {want.agent}` without them claims the files in {want.state_path}"
            return MachinePlan(refusals=[Refusal(reason, hint, code="adopt.nothing-there")])
        return MachinePlan(after=MachineAfter(adopted_state=True))

    def visit(self, want: MachineWant, target: AdoptTarget, seen: HostSeen) -> None:
        return None  # the machine is never destroyed, so its root disk need not be examined


@frozen
class HostDoctor:
    """Examines whether services can be installed on the host."""

    spec: HostSpec
    guest: Guest

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        uid, init, *nixos = expect(self.guest, "examining the machine", _LOOK).split()
        reached = Finding("reached", True, self.spec.address or "this machine")
        if wants and all(want.spec.runtime is RuntimeName.PROCESS for want in wants):
            return [reached, *self._of_processes(uid)], []
        enough = uid == "0" or self.spec.scope is Scope.USER
        sentence = "root" if uid == "0" else f"uid {uid}{'' if enough else ': installing a service takes root'}"
        root = Finding("account", enough, sentence)
        systemd = Finding("systemd", init == "systemd", f"process 1 is {init}")
        findings = [reached, root, systemd]
        if nixos:
            findings.append(Finding("nixos", self.spec.scope is Scope.USER, "on NixOS agents need scope: user"))
        return findings, []

    def _of_processes(self, uid: str) -> Iterator[Finding]:
        yield Finding("account", True, f"uid {uid}; runtime process needs neither root nor systemd")
        if self.spec.scope is Scope.USER:
            sentence = "user: it makes no difference, because runtime process always runs in your account"
            yield Finding("scope", True, sentence, warns=True)
