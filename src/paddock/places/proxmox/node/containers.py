"""Reading and changing container configurations: the base of the classes that perform actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from paddock import __version__
from paddock.base.errors import PaddockError, Refused, WorldChanged
from paddock.places.proxmox.api.client import Client, NotReached, TaskCutOff
from paddock.places.proxmox.api.errors import Exists, Forbidden, NoContainer
from paddock.places.proxmox.node import numbers
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import AGAIN, Claim, Mark, without_claim
from paddock.places.proxmox.node.observation import LxcContainer
from paddock.places.proxmox.node.observe import await_tasks
from paddock.places.proxmox.safety.same_container import ExpectedContainers
from paddock.places.proxmox.template import cloning

_CLONING: Final = 600.0
_COPYING: Final = 3600.0  # of gigabytes, on a slow storage
_AT_WORK: Final = timedelta(minutes=5)


class Containers:
    """The containers of one node that a run may change; each is read again before every change."""

    def __init__(
        self, client: Client, reporter: Callable[[str], None], expected: ExpectedContainers, holder: Holder
    ) -> None:
        self._client = client
        self._reporter = reporter
        self._expected = expected
        self._holder = holder
        self._path = f"/nodes/{client.node}/lxc"

    def read(self, vmid: int) -> LxcContainer:
        """Return a container as it is now; raise unless it is the container that was planned for.

        Every step reads before it acts: requests name containers by number, and another one may have it by now.
        Refused while another run has a claim on the container.
        """
        with self._unless_deleted(vmid):
            config: dict[str, Any] = self._client.get(f"{self._path}/{vmid}/config")
        container = LxcContainer(vmid, "unknown", config)
        self._expected.check(container)
        self._check_claim(container)
        return container

    def _marked(self, vmid: int) -> tuple[LxcContainer, Mark]:
        container = self.read(vmid)
        if container.mark is None:
            raise Refused(f"the mark of {container.name} is gone from its notes")
        return container, container.mark

    def _clone_template(self, vmid: int, template: LxcContainer, order: Mapping[str, str | int]) -> None:
        """Clone a template, as a full copy where its storage has no linked clones."""
        order = cloning.as_possible(self._client, template, order)
        if "full" in order:
            self._reporter(f"container {vmid} becomes a full copy of template {template.vmid}, which takes a while")
        with self._making(vmid):
            path = f"{self._path}/{template.vmid}/clone"
            ended = self._client.task("POST", path, order, deadline=_COPYING if "full" in order else _CLONING)
        for warning in ended.warnings:
            self._reporter(warning)

    def _task(self, method: str, path: str, params: Mapping[str, str | int] | None = None) -> None:
        for warning in self._client.task(method, path, params).warnings:
            self._reporter(warning)

    def _put(self, read: LxcContainer, params: Mapping[str, str | int]) -> None:
        """Change a configuration; Proxmox refuses if someone else changed it since it was read."""
        digest = str(read.config["digest"])
        with self._unless_deleted(read.vmid):
            self._client.send("PUT", f"{self._path}/{read.vmid}/config", {**params, "digest": digest})

    @contextmanager
    def _unless_deleted(self, vmid: int) -> Iterator[None]:
        """Tell a deleted container from a missing privilege: privileges on a pool hold for its members only."""
        try:
            yield
        except Forbidden:
            if self._may_read(vmid):
                raise
            raise WorldChanged(f"someone has deleted container {vmid}", hint="run the same command again") from None

    def _may_read(self, vmid: int) -> bool:
        try:
            self._client.get(f"{self._path}/{vmid}/config")
        except (Forbidden, NoContainer):
            return False
        return True

    def _delete(self, container: LxcContainer, prove: Callable[[], None] = lambda: None, **changes: int) -> None:
        """Delete a container under a claim. ``prove`` raises if the container must be kept."""
        # Another run that read the same configuration now has a stale digest, or sees the claim.
        self._put(container, {**changes, "description": self._claimed_notes(container.notes)})
        prove()
        with self._unless_deleted(container.vmid):
            self._task("DELETE", f"{self._path}/{container.vmid}")

    @contextmanager
    def _making(self, vmid: int) -> Iterator[None]:
        """Create a container. If the node goes down meanwhile, say where to look for what it may leave.

        The node may still be creating a container of this number for a run that was killed. Wait for it, so that the
        next observation sees it.
        """
        try:
            yield
        except Exists:
            await_tasks(self._client, vmid, self._reporter)
            raise
        except (TaskCutOff, NotReached) as error:
            error.hint = f"{error.hint}\n{numbers.look_hint(vmid)}"
            raise

    @contextmanager
    def _claimed(self, vmid: int) -> Iterator[None]:
        """Keep other runs away from a pet during a change, if the token may write the pet's notes."""
        pet = self.read(vmid)
        try:
            self._put(pet, {"description": self._claimed_notes(pet.notes)})
        except Forbidden:
            yield
            return
        try:
            yield
        finally:
            pet = self.read(vmid)
            self._put(pet, {"description": without_claim(pet.notes)})

    def _claimed_notes(self, notes: str) -> str:
        """Return the notes with a claim of this run for a short change."""
        return self._claim(_AT_WORK).written_into(notes)

    def _claim(self, lasts: timedelta) -> Claim:
        """Return a claim of this run that begins now."""
        return self._holder.claim(self._client.now(), lasts)

    def _check_claim(self, container: LxcContainer) -> None:
        """Raise while another run has a claim on the container."""
        other = Claim.from_notes(container.notes)
        if other and other.blocks(self._holder.name, self._client.now(), self._holder.has_ended):
            raise Refused(other.over(container.name), hint=AGAIN)

    def _volume(self, vmid: int, key: str) -> str:
        mount = self.read(vmid).mount(key)
        if mount is None or mount.owner != vmid:
            raise PaddockError(f"container {vmid} has no volume of its own at {key} after it was created")
        return mount.volume


def with_version(notes: str) -> str:
    """Return the notes with the version of this Paddock in their mark."""
    mark = Mark.from_notes(notes)
    return replace(mark, by=__version__).written_into(notes) if mark else notes
