"""A Linux machine that exists already."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from paddock.guests import Guest, expect
from paddock.guests.local import LocalGuest
from paddock.guests.ssh import SshGuest
from paddock.places import AdoptTarget, Description, Finding, Got, Machine, MachinePlan, MachineWant, TemplateInfo
from paddock.plan.step import Action, DeleteState, Refusal, Risk, Step
from paddock.spec.models import HostSpec, MachineSpec, Scope

_LOOK: Final = ("sh", "-c", "id -u; cat /proc/1/comm")


class HostPlace:
    """This machine or one over ssh; nothing to create, nothing to destroy. The pet is the state directory."""

    mounts_state = False
    keeps_machine = True
    people = ()

    def __init__(self, name: str, spec: HostSpec, folder: Path) -> None:
        self._name = name
        self._spec = spec
        self._key = folder / spec.key.expanduser() if spec.key else None

    @cached_property
    def account_home(self) -> str | None:
        if self._spec.scope is Scope.SYSTEM:
            return None
        return expect(self._guest(), "looking for the account's home", ["printenv", "HOME"]).strip()

    @property
    def identity(self) -> str:
        spec = self._spec
        where = f"{spec.address.lower()}:{spec.port}" if spec.address else "here"
        return f"{where} {spec.user}" if spec.scope is Scope.USER else where

    def close(self) -> None:
        """Nothing is held open."""

    def template(self, label: str, contents: str, machine: MachineSpec) -> None:
        return None

    def observe(self, agent: str | None = None) -> None:
        return None

    def up(self, want: MachineWant, seen: None) -> MachinePlan:
        return MachinePlan()

    def down(self, want: MachineWant, seen: None) -> MachinePlan:
        return MachinePlan()

    def forget(self, want: MachineWant, seen: None) -> MachinePlan:
        title = f"delete {want.state_path} on {self._name}"
        return MachinePlan([Step("state.delete", title, "it is to be forgotten", DeleteState(), Risk.RECREATES)])

    def describe(self, agent: str, target: AdoptTarget, seen: None) -> Description:
        return Description()

    def adopt(self, want: MachineWant, target: AdoptTarget, seen: None) -> MachinePlan:
        if target != AdoptTarget():
            reason = "a host has neither containers nor volumes to adopt"
            hint = f"`paddock adopt {want.agent}` alone claims the files in {want.state_path}"
            return MachinePlan(refusals=[Refusal(reason, hint)])
        return MachinePlan(adopted=True)

    def visit(self, want: MachineWant, target: AdoptTarget, seen: None) -> None:
        return None  # the machine stays, and all that is on it

    def rebuild(self, want: MachineWant, seen: None, *, anew: bool) -> MachinePlan:
        return MachinePlan()

    def templates(self, seen: None) -> Sequence[TemplateInfo]:
        return ()

    def remove_template(self, info: TemplateInfo) -> None:
        raise AssertionError(f"a host has no templates, and not {info}")

    def examine(self, wants: Sequence[MachineWant]) -> tuple[Sequence[Finding], Sequence[str]]:
        who, init = expect(self.guest(wants[0], None, {}), "looking at the machine", _LOOK).split()
        enough = who == "0" or self._spec.scope is Scope.USER
        sentence = "root" if who == "0" else f"uid {who}{'' if enough else ': installing a service takes root'}"
        root = Finding("account", enough, sentence)
        systemd = Finding("systemd", init == "systemd", f"process 1 is {init}")
        return [Finding("reached", True, self._spec.address or "this machine"), root, systemd], []

    def verify(self, want: MachineWant, seen: None) -> Sequence[Finding]:
        return [Finding("machine", True, f"{self._spec.address or 'this machine'}, which is not Paddock's to make")]

    def notes(self, want: MachineWant, seen: None) -> str:
        return ""

    def machine(self, want: MachineWant, seen: None) -> Machine:
        return Machine(
            name=self._name,
            status="running",
            address=self._spec.address or "local",
            state=want.state_path,
            hostname=self._spec.address or socket.gethostname(),
            owner=self._owner(want),
        )

    def _owner(self, want: MachineWant) -> str:
        """Whose the agent's files are."""
        spec, user = self._spec, want.spec.user
        if spec.scope is Scope.USER:
            return spec.user if spec.address else getpass.getuser()
        return f"{user.uid}:{user.gid or user.uid}"

    def doubts(self, want: MachineWant, seen: None) -> Sequence[Refusal]:
        return ()

    def without_machine(self, want: MachineWant, seen: None) -> None:
        return None

    def lacking(self, actions: Sequence[Action], seen: None) -> Sequence[str]:
        return ()

    def perform(self, action: Action, seen: None, got: Got) -> Got:
        raise AssertionError(f"a host has no steps of its own, and not {action}")

    def guest(self, want: MachineWant, seen: None, got: Got) -> Guest:
        return self._guest()

    def _guest(self) -> Guest:
        spec = self._spec
        if spec.address is None:
            return LocalGuest()
        keys = (spec.host_key,) if spec.host_key else ()
        return SshGuest(self._name, spec.address, spec.user, spec.port, self._key, keys, spec.jump)
