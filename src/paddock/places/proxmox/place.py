"""The place ``proxmox``: observes a node and performs the steps planned for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from paddock.errors import BadInput, PaddockError, Refused
from paddock.guests import Guest
from paddock.guests.ssh import SshGuest, scan_host_key
from paddock.places import Got, Machine, MachinePlan, MachineWant
from paddock.places.proxmox import observe
from paddock.places.proxmox.actions import (
    ADDRESS,
    HOST_KEY,
    MOUNT_KEY,
    STATE_VOLUME,
    Configure,
    CreateCattle,
    CreatePet,
    Destroy,
    Detach,
    Reach,
    Shutdown,
    Start,
)
from paddock.places.proxmox.client import ApiError, Client
from paddock.places.proxmox.mark import Role
from paddock.places.proxmox.seen import Container, Mount, ProxmoxSeen
from paddock.places.proxmox.steps import NodePlanner
from paddock.plan.step import Action, Ref
from paddock.spec.models import ProxmoxSpec

_REACH_SECONDS: Final = 120


class ProxmoxPlace:
    """One node. The state is a volume of the pet; the machine is cattle."""

    mounts_state = True
    keeps_machine = False

    def __init__(self, spec: ProxmoxSpec, folder: Path, story: Callable[[str], None]) -> None:
        self._key = folder / spec.ssh.key.expanduser()
        self._story = story
        self._planner = NodePlanner(spec, _public_key(self._key))
        ca = folder / spec.ca.expanduser() if spec.ca else None
        self._client = Client(spec.url, spec.node, spec.token.read(folder), ca)
        self._path = f"/nodes/{spec.node}/lxc"

    def close(self) -> None:
        self._client.close()

    def observe(self) -> ProxmoxSeen:
        return observe.observe(self._client, self._story)

    def up(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.up(want, seen)

    def down(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self._planner.down(want, seen)

    def machine(self, want: MachineWant, seen: ProxmoxSeen) -> Machine:
        pet = next(iter(seen.ours(want.agent, Role.PET)), None)
        cattle = next(iter(seen.ours(want.agent, Role.CATTLE)), None)
        state = next((mount.volume for mount in pet.mounts if mount.key == MOUNT_KEY), "none") if pet else "none"
        if cattle is None:
            return Machine(want.agent, "absent", None, state)
        return Machine(str(cattle.vmid), cattle.status, cattle.address, state)

    def guest(self, want: MachineWant, seen: ProxmoxSeen, got: Got) -> Guest | None:
        cattle = next(iter(seen.ours(want.agent, Role.CATTLE)), None)
        address = got.get(ADDRESS.name) or (cattle.address if cattle else None)
        host_key = got.get(HOST_KEY.name) or (cattle.mark.host_key if cattle and cattle.mark else None)
        if not address or not host_key:
            return None
        return SshGuest(name=want.agent, address=address, key=self._key, host_key=f"ssh-ed25519 {host_key}")

    def perform(self, action: Action, got: Got) -> Got:
        match action:
            case CreatePet(vmid, params):
                self._task("POST", self._path, {"vmid": vmid, **params})
                volume = next(m.volume for m in self._read(vmid).mounts if m.key == MOUNT_KEY)
                return {STATE_VOLUME.name: volume}
            case CreateCattle(vmid, params, volume, mount):
                known = got[volume.name] if isinstance(volume, Ref) else volume
                self._task("POST", self._path, {"vmid": vmid, **params, MOUNT_KEY: f"{known},mp={mount}"})
                self._expect_mount(vmid, known, mount)
            case Configure(vmid, params):
                self._put(self._read(vmid), params)
            case Start(vmid):
                self._start(vmid)
            case Reach(vmid):
                return self._reach(vmid)
            case Shutdown(vmid, seconds):
                params = {"timeout": seconds, "forceStop": 1}
                self._task("POST", f"{self._path}/{vmid}/status/shutdown", params)
            case Detach(vmid):
                self._detach(vmid)
            case Destroy(vmid):
                self._destroy(vmid)
            case _:
                raise AssertionError(f"not an action of this place: {action}")
        return {}

    def _task(self, method: str, path: str, params: Mapping[str, str | int] | None = None) -> None:
        for warning in self._client.task(method, path, params).warnings:
            self._story(warning)

    def _read(self, vmid: int) -> Container:
        config: dict[str, Any] = self._client.get(f"{self._path}/{vmid}/config")
        return Container(vmid, "unknown", config)

    def _put(self, read: Container, params: Mapping[str, str | int]) -> None:
        """Change a configuration, unless someone else did since it was read."""
        digest = str(read.config["digest"])
        self._client.send("PUT", f"{self._path}/{read.vmid}/config", {**params, "digest": digest})

    def _expect_mount(self, vmid: int, volume: str, path: str) -> None:
        mounts = [(mount.volume, mount.path) for mount in self._read(vmid).mounts if mount.key == MOUNT_KEY]
        if mounts != [(volume, path)]:
            raise PaddockError(f"machine {vmid} was created without the state volume {volume} at {path}")

    def _start(self, vmid: int) -> None:
        try:
            self._task("POST", f"{self._path}/{vmid}/status/start")
        except ApiError as error:
            # A run that was cut off may have left a start of its own behind.
            if error.reason != f"CT {vmid} already running":
                raise

    def _reach(self, vmid: int) -> Got:
        end = time.monotonic() + _REACH_SECONDS
        pause = 0.05
        while True:
            address = observe.address(self._client, vmid)
            answered = scan_host_key(address) if address else None
            if address and answered:
                break
            if time.monotonic() > end:
                raise PaddockError(
                    f"machine {vmid} " + (f"has {address} but no ssh answers there" if address else "got no address"),
                    hint="does the bridge have DHCP, and can this machine route to it?",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        return {ADDRESS.name: address, HOST_KEY.name: self._trusted(vmid, answered.split()[1])}

    def _trusted(self, vmid: int, answered: str) -> str:
        """The host key on record; the first one that answers a new machine's own address goes on record."""
        container = self._read(vmid)
        if container.mark is None:
            raise Refused(f"the mark of {container.name} is gone from its notes")
        if container.mark.host_key is None:
            marked = replace(container.mark, host_key=answered)
            self._put(container, {"description": marked.written_into(container.notes)})
            return answered
        return container.mark.host_key

    def _detach(self, vmid: int) -> None:
        mounted = [mount for mount in self._read(vmid).mounts if mount.key.startswith("mp")]
        self._drop(vmid, mounted)
        # Proxmox keeps a detached volume, also a foreign one, as unusedN.
        self._drop(vmid, [mount for mount in self._read(vmid).mounts if mount.key.startswith("unused")])

    def _drop(self, vmid: int, mounts: list[Mount]) -> None:
        if any(mount.owner == vmid for mount in mounts):
            raise Refused(f"machine {vmid} owns one of {', '.join(mount.volume for mount in mounts)}")
        if mounts:
            self._put(self._read(vmid), {"delete": ",".join(mount.key for mount in mounts)})

    def _destroy(self, vmid: int) -> None:
        container = self._read(vmid)
        if container.mark is None or container.mark.role is not Role.CATTLE:
            raise Refused(f"{container.name} is not marked as cattle of Paddock")
        more = [mount.key for mount in container.mounts if mount.key != "rootfs"]
        if more:
            raise Refused(f"{container.name} still names volumes: {', '.join(more)}")
        self._task("DELETE", f"{self._path}/{vmid}")


def _public_key(private: Path) -> str:
    public = private.with_name(private.name + ".pub")
    try:
        return public.read_text().strip()
    except OSError:
        raise BadInput(f"there is no public key {public}", hint=f"ssh-keygen -t ed25519 -f {private}") from None
