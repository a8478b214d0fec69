"""Performing what archives need: save a pet with vzdump, and restore an archive to a spare number that can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never
from urllib.parse import quote

from paddock.base.errors import PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.channels import Guest
from paddock.file.agent_id import AgentId
from paddock.places.contract import Archive, Got, MachineWant
from paddock.places.proxmox.access import visibility
from paddock.places.proxmox.access.privileges import holds
from paddock.places.proxmox.actions import (
    MOUNT_KEY,
    SPARE_VOLUME,
    BackUpPet,
    CloneReader,
    ConfirmBackup,
    DestroySpare,
    RestoreSpare,
)
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import Forbidden, Missing
from paddock.places.proxmox.archive import plan as archive
from paddock.places.proxmox.archive.plan import Notes, Saved, owner_of
from paddock.places.proxmox.machine.reach import Reacher
from paddock.places.proxmox.node import numbers
from paddock.places.proxmox.node.containers import Containers, resolved, with_version
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import ProxmoxSeen
from paddock.places.proxmox.pet.plan import path_in_pet
from paddock.places.proxmox.planner import NodePlanner
from paddock.plan.step import MachinePlan

_HOURS: Final = 6 * 3600.0  # for a large state on a slow storage
_READING: Final = timedelta(hours=6)
_LOCK_MINUTES: Final = 2  # the agent is stopped meanwhile, so another backup of the node is not waited for


class Archiver(Containers):
    """Performs the actions on archives. It never changes a pet."""

    def perform(self, action: BackUpPet | ConfirmBackup | RestoreSpare | CloneReader | DestroySpare, got: Got) -> Got:
        """Perform one action and return the values that later steps refer to."""
        match action:
            case BackUpPet():
                self._back_up(action)
                return {}
            case ConfirmBackup():
                self._confirm(action)
                return {}
            case RestoreSpare():
                return self._restore(action)
            case CloneReader():
                return self._clone(action, got)
            case DestroySpare(vmid, agent):
                self._destroy(vmid, agent)
                return {}
            case _:
                assert_never(action)

    def _back_up(self, action: BackUpPet) -> None:
        pet = self.read(action.vmid)
        if pet.mount_at(path_in_pet(action.agent)) is None:
            raise Refused(f"{pet.name} does not have the state of {action.agent.name} by now")
        notes = Notes(action.about, self._claim(timedelta()).holder)
        order: dict[str, str | int] = {
            "vmid": action.vmid,
            "storage": action.storage,
            "mode": "stop",
            "compress": "zstd",
            "lockwait": _LOCK_MINUTES,
            "notes-template": str(notes),
        }
        upid = str(self._client.send("POST", f"/nodes/{self._client.node}/vzdump", order))
        if not upid.startswith("UPID:"):
            # Proxmox answers OK, and saves nothing, if the container is on another node.
            raise PaddockError(f"Proxmox did not back {pet.name} up: it answered {upid!r}")
        self._warn(self._client.wait(upid, _HOURS))
        volume, _ = self._made_by_this_run(action)
        check_state_in(self._client, volume, action.agent)

    def _confirm(self, action: ConfirmBackup) -> None:
        volume, notes = self._made_by_this_run(action)
        self._client.send("PUT", path_of(self._client, volume), {"notes": str(replace(notes, finished=True))})

    def _made_by_this_run(self, action: BackUpPet | ConfirmBackup) -> tuple[str, Notes]:
        """Return the newest unfinished archive that this run has made of the pet, and its notes."""
        for row in sorted(listed(self._client, action.storage), key=lambda row: int(row["ctime"]), reverse=True):
            notes = Notes.parse(str(row.get("notes", "")))
            ours = notes and (notes.run, notes.about["agent"]) == (self._holder.name, str(action.agent))
            if notes and ours and not notes.finished and owner_of(str(row["volid"])) == action.vmid:
                return str(row["volid"]), notes
        raise PaddockError(f"the task of the backup succeeded, but {action.storage} has no archive of it")

    def _restore(self, action: RestoreSpare) -> Got:
        notes = with_version(str(action.params["description"]))
        claimed = self._claim(_READING).written_into(notes)
        params = {"vmid": action.vmid, **action.params, "description": claimed}
        with self._making(action.vmid):
            self._task("POST", self._path, params, _HOURS)
        mark = Mark.from_notes(notes)
        if mark is None:
            raise TypeError("the mark of a spare cannot be read")
        made = self._expected.record_created(action.vmid, mark)
        spare = self.read(action.vmid)
        state = spare.mount_at(path_in_pet(action.agent))
        if state is None:
            raise PaddockError(f"{spare.name} has no state of {action.agent.name} after it was restored")
        return {**made, SPARE_VOLUME.name: state.volume}

    def _clone(self, action: CloneReader, got: Got) -> Got:
        notes = self._claim(_READING).written_into(with_version(str(action.clone["description"])))
        made = self._clone_template(action.vmid, int(resolved(action.template, got)), action.clone, notes)
        mounted = {MOUNT_KEY: f"{got[action.volume.name]},mp={action.mount}"}
        self._put(self.read(action.vmid), {**action.params, **mounted})
        return made

    def _destroy(self, vmid: int, agent: AgentId) -> None:
        spare = self.read(vmid)
        if spare.mark is None or (spare.mark.role, spare.mark.agent) != (Role.SPARE, agent):
            raise Refused(f"{spare.name} is not a restored backup of {agent.name}")
        foreign = [mount.volume for mount in spare.mounts if mount.owner != vmid]
        if foreign:
            raise Refused(f"{spare.name} has volumes of others: {', '.join(foreign)}")
        self._delete(spare, lambda: self._check_unused(vmid, [mount.volume for mount in spare.mounts]))

    def _check_unused(self, vmid: int, volumes: list[str]) -> None:
        users = [user.name for volume in volumes for user in visibility.users_of(self._client, volume, vmid)]
        if users:
            raise Refused(f"{', '.join(dict.fromkeys(users))} uses a volume of container {vmid}, which is kept")


def listed(client: Client, storage: str) -> list[Mapping[str, Any]]:
    """Return the archives of containers on a storage that the token may see."""
    rows = client.get(f"/nodes/{client.node}/storage/{storage}/content", {"content": "backup"})
    return [row for row in rows if row.get("subtype", "lxc") == "lxc"]


def path_of(client: Client, volume: str) -> str:
    """Return the path of an archive in the API."""
    return f"/nodes/{client.node}/storage/{volume.partition(':')[0]}/content/{quote(volume, safe=':/')}"


def check_state_in(client: Client, volume: str, agent: AgentId) -> Saved:
    """Return the volumes in an archive, from its saved configuration; raise unless it has the agent's state."""
    text = str(client.get(f"/nodes/{client.node}/vzdump/extractconfig", {"volume": volume}))
    saved = Saved.parse(agent, text)
    if saved is None:
        raise PaddockError(f"{volume} does not have the state of {agent.in_words}")
    return saved


_LONG_AGO: Final = timedelta(days=1)  # longer than any backup takes


@frozen
class NodeArchives:
    """The archives of one agent's pet on a storage of its node."""

    client: Client
    planner: NodePlanner
    reacher: Reacher
    holder: Holder

    def check(self, want: MachineWant) -> None:
        storage = archive.storage_of(want)
        try:
            status = self.client.get(f"/nodes/{self.client.node}/storage/{storage}/status")
        except Missing:
            hint = "write another backup.to.proxmox.storage"
            raise Refused(f"node {self.client.node} has no storage {storage} for backups", hint=hint) from None
        except Forbidden as error:
            raise Refused(
                f"storage {storage} cannot be used for backups: {error.reason}",
                hint="`paddock doctor` shows which privileges are missing",
            ) from None
        if "backup" not in str(status.get("content", "")).split(","):
            raise Refused(
                f"storage {storage} is not set up for backups",
                hint=f"as root on the node: `pvesm set {storage} --content …,backup`",
            )
        if not int(status.get("active", 0)):
            raise Refused(f"storage {storage} is not available", hint="`pvesm status` on the node says more")
        held = self.client.get("/access/permissions")
        if not holds(held, f"/storage/{storage}", "Datastore.AllocateSpace"):
            raise Refused(
                f"the token lacks Datastore.AllocateSpace on /storage/{storage}",
                hint="`paddock doctor` prints the commands that grant it",
            )

    def plan_save(self, want: MachineWant, about: Mapping[str, str], seen: ProxmoxSeen) -> MachinePlan:
        return self.planner.save(want, about, seen)

    def listed(self, want: MachineWant) -> Sequence[Archive]:
        if not any("VM.Backup" in held for held in self.client.get("/access/permissions").values()):
            raise Refused(
                "the token lacks VM.Backup on the pets, so Proxmox hides their backups from it",
                hint="`paddock doctor` prints the commands that grant it",
            )
        found = [
            Archive(str(row["volid"]), _time(row), int(row.get("size", 0)), notes.about)
            for row, notes in self._of(want)
            if notes.finished
        ]
        return sorted(found, key=lambda each: each.made)

    def _of(self, want: MachineWant) -> Iterator[tuple[Mapping[str, Any], archive.Notes]]:
        for row in listed(self.client, archive.storage_of(want)):
            notes = archive.Notes.parse(str(row.get("notes", "")))
            if notes and notes.about["agent"] == str(want.id) and archive.owner_of(str(row["volid"])):
                yield row, notes

    def remove(self, want: MachineWant, archives: Sequence[Archive]) -> None:
        names = {each.name for each in archives}
        for row, notes in list(self._of(want)):
            left = not notes.finished and self._is_over(notes, _time(row))
            if (str(row["volid"]) in names or left) and not int(row.get("protected", 0)):
                self.client.task("DELETE", path_of(self.client, str(row["volid"])))

    def _is_over(self, notes: archive.Notes, begun: datetime) -> bool:
        return self.holder.has_ended(notes.run) or begun < self.client.now() - _LONG_AGO

    def plan_read(self, want: MachineWant, of: Archive, seen: ProxmoxSeen) -> MachinePlan:
        saved = check_state_in(self.client, of.name, want.id)
        unseen = numbers.taken_unseen(partial(numbers.is_taken, self.client), want, seen.taken)
        return self.planner.read(want, of, saved, replace(seen, taken=seen.taken | unseen))

    def reader(self, want: MachineWant, seen: ProxmoxSeen) -> Guest | None:
        for reader in archive.readers(want.id, seen):
            if reader.address and reader.mark:
                return self.reacher.guest(f"reader-{reader.vmid}", reader.vmid, reader.address, reader.mark.host_keys)
        return None

    def plan_clear(self, want: MachineWant, seen: ProxmoxSeen) -> MachinePlan:
        return self.planner.clear_readers(want, seen)


def _time(row: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(row["ctime"]), UTC)
