"""A Linux machine that exists already."""

from __future__ import annotations

from pathlib import Path

from paddock.guests import Guest
from paddock.guests.local import LocalGuest
from paddock.guests.ssh import SshGuest
from paddock.places import Got, Machine, MachinePlan, MachineWant
from paddock.plan.step import Action
from paddock.spec.models import HostSpec


class HostPlace:
    """This machine or one over ssh; nothing to create, nothing to destroy. The pet is the state directory."""

    mounts_state = False
    keeps_machine = True

    def __init__(self, name: str, spec: HostSpec, folder: Path) -> None:
        self._name = name
        self._spec = spec
        self._key = folder / spec.key.expanduser() if spec.key else None

    def close(self) -> None:
        """Nothing is held open."""

    def template(self, label: str, contents: str) -> None:
        return None

    def observe(self) -> None:
        return None

    def up(self, want: MachineWant, seen: None) -> MachinePlan:
        return MachinePlan()

    def down(self, want: MachineWant, seen: None) -> MachinePlan:
        return MachinePlan()

    def machine(self, want: MachineWant, seen: None) -> Machine:
        return Machine(
            name=self._name,
            status="running",
            address=self._spec.address or "local",
            state=want.state_path,
        )

    def perform(self, action: Action, got: Got) -> Got:
        raise AssertionError(f"a host has no steps of its own, and not {action}")

    def guest(self, want: MachineWant, seen: None, got: Got) -> Guest:
        spec = self._spec
        if spec.address is None:
            return LocalGuest()
        keys = (spec.host_key,) if spec.host_key else ()
        return SshGuest(self._name, spec.address, spec.user, spec.port, self._key, keys)
