"""A place that Paddock does not ship: a stub of containers in Incus, of which there are none yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paddock.places.contract import Got, Machine, MachineWant, PlaceSeen, Remnant, Traits
from paddock.plan.step import Goal, MachinePlan
from places.incus.keys import Keys


class Incus:
    """The members of a place that planning needs."""

    templates = adoption = archives = doctor = permissions = None

    def __init__(self, keys: Keys) -> None:
        self.traits = Traits(keys.remote, mounts_state=True, keeps_machine=False)

    def close(self) -> None: ...

    def account_home(self) -> None: ...

    def login_keys(self) -> list[str]:
        return []

    def observe(self, want: MachineWant | None = None) -> PlaceSeen:
        return PlaceSeen()

    observed = observe

    def machine(self, want: MachineWant, seen: PlaceSeen) -> Machine:
        return Machine(want.agent, "absent", None, "none")

    def guest(self, want: MachineWant, seen: PlaceSeen, got: Got) -> None: ...

    def remnants(self, project: str, agents: object, seen: PlaceSeen) -> list[Remnant]:
        return []

    def plan(self, goal: Goal, want: MachineWant, seen: PlaceSeen) -> MachinePlan:
        return MachinePlan()


def open_place(name: str, keys: Keys, folder: Path, say: Callable[[str], None], *, patient: bool) -> Incus:
    return Incus(keys)
