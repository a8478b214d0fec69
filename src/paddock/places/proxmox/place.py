"""The place ``proxmox``: one node, reached with a token; the state is a volume of the pet, the machine is cattle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paddock.errors import BadInput
from paddock.guests import Guest
from paddock.places import Got, Machine, MachinePlan, MachineWant, TemplateWant
from paddock.places.proxmox import observe, tls
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.pet import path_in_pet
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.reach import Reacher
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.places.proxmox.worker import Worker
from paddock.plan.step import Action
from paddock.spec.models import ProxmoxSpec


class ProxmoxPlace:
    """Observes a node, plans for it and performs the steps."""

    mounts_state = True
    keeps_machine = False

    def __init__(self, spec: ProxmoxSpec, folder: Path, story: Callable[[str], None]) -> None:
        key = folder / spec.ssh.key.expanduser()
        ca = folder / spec.ca.expanduser() if spec.ca else None
        self._planner = NodePlanner(spec, _public_key(key))
        self._client = Client(spec.url, spec.node, spec.token.read(folder), tls.context(spec.url, ca, spec.fingerprint))
        self._reacher = Reacher(self._client, key)
        self._worker = Worker(self._client, self._reacher, story)
        self._storage = spec.storage
        self._story = story

    def close(self) -> None:
        self._client.close()

    def template(self, label: str, contents: str) -> TemplateWant | None:
        return self._planner.template(label, contents)

    def observe(self) -> ProxmoxSeen:
        return observe.observe(self._client, self._storage, self._story)

    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.up(want, seen)

    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.down(want, seen)

    def machine(self, want: MachineWant, seen: ProxmoxSeen) -> Machine:
        path = path_in_pet(want.agent)
        states = [mount for pet in seen.with_role(Role.PET) if (mount := pet.mount_at(path))]
        state = states[0].volume if states else "none"
        cattle = next(iter(seen.cattle_of(want.agent)), None)
        if cattle is None:
            return Machine(want.agent, "absent", None, state)
        return Machine(str(cattle.vmid), cattle.status, cattle.address, state)

    def guest(self, want: MachineWant, seen: ProxmoxSeen, got: Got) -> Guest | None:
        cattle = next(iter(seen.cattle_of(want.agent)), None)
        address = got.get(ADDRESS.name) or (cattle.address if cattle else None)
        on_record = cattle.mark.host_keys if cattle and cattle.mark else ()
        keys = (got[HOST_KEY.name],) if HOST_KEY.name in got else on_record
        return self._reacher.guest(want.agent, address, keys) if address and keys else None

    def perform(self, action: Action, got: Got) -> Got:
        return self._worker.perform(action, got)


def _public_key(private: Path) -> str:
    public = private.with_name(private.name + ".pub")
    try:
        return public.read_text().strip()
    except OSError:
        raise BadInput(f"there is no public key {public}", hint=f"ssh-keygen -t ed25519 -f {private}") from None
