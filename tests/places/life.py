"""Running verbs until they succeed on a simulated node, and the expected result."""

from __future__ import annotations

from collections.abc import Callable

from paddock.base.errors import PaddockError
from places.node import CATTLE, PET, Killed, Node, PaperAgent

LXC = "/nodes/pve/lxc"
STATE = "local-lvm:vm-100-disk-1"
PETS_VOLUMES = {"vm-100-disk-0", "vm-100-disk-1"}


def runs_until_done(verb: Callable[[PaperAgent], str], agent: Callable[[], PaperAgent]) -> list[BaseException]:
    """Run a verb until it succeeds; return the errors of the failed runs."""
    ends: list[BaseException] = []
    while True:
        try:
            verb(agent())
        except (PaddockError, Killed) as end:
            ends.append(end)
            assert len(ends) < 3, ends
        else:
            return ends


def expect_up(node: Node, template: int | None = None) -> None:
    """Expect one pet, one running machine with the state, and nothing else."""
    made = [template] if template else []
    assert node.vmids == [PET, CATTLE, *made]
    assert node.running == [CATTLE]
    assert node.config(CATTLE)["mp0"].startswith(f"{STATE},mp=/var/lib/paddock/bee")
    assert node.config(PET)["protection"] == 1
    assert node.volumes == PETS_VOLUMES | {"vm-101-disk-0"} | {f"base-{number}-disk-0" for number in made}


def expect_down(node: Node, template: int | None = None) -> None:
    """Expect the pet with its state, and nothing else."""
    made = [template] if template else []
    assert node.vmids == [PET, *made]
    assert node.config(PET)["mp0"].startswith(STATE)
    assert node.volumes == PETS_VOLUMES | {f"base-{number}-disk-0" for number in made}
