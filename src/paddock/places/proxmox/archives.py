"""The capability ``archives`` of a node: backups of pets that Proxmox makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from paddock.errors import Refused
from paddock.frozen import frozen
from paddock.guests import Guest
from paddock.places import Archive, MachineWant
from paddock.places.proxmox import archive, numbering
from paddock.places.proxmox.archiver import check_state_in, listed, path_of
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import Forbidden, Missing
from paddock.places.proxmox.holder import Holder
from paddock.places.proxmox.planner import NodePlanner
from paddock.places.proxmox.privileges import holds
from paddock.places.proxmox.reach import Reacher
from paddock.places.proxmox.seen import ProxmoxSeen
from paddock.plan.machine import MachinePlan

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
        unseen = numbering.taken_unseen(partial(numbering.is_taken, self.client), want, seen.taken)
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
