"""Reading and changing container configurations: the base of the classes that perform actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from paddock import __version__
from paddock.base.errors import PaddockError, Refused, WorldChanged
from paddock.base.frozen import frozen
from paddock.places.contract import Got
from paddock.places.proxmox.actions import Params
from paddock.places.proxmox.api.client import Client, NotReached, TaskCutOff, TaskEnd
from paddock.places.proxmox.api.errors import Exists, Forbidden, NoContainer
from paddock.places.proxmox.node import numbers
from paddock.places.proxmox.node.holder import Holder
from paddock.places.proxmox.node.notes import AGAIN, Claim, Mark, Role, without_claim
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen
from paddock.places.proxmox.node.observe import await_tasks
from paddock.places.proxmox.safety.same_container import ExpectedContainers
from paddock.places.proxmox.template import cloning
from paddock.plan.actions import Ref

_CLONING: Final = 600.0
_COPYING: Final = 3600.0  # of gigabytes, on a slow storage
_AT_WORK: Final = timedelta(minutes=5)


@frozen
class Run:
    """One run on one node, for the classes that perform its actions."""

    client: Client
    reporter: Callable[[str], None]
    expected: ExpectedContainers
    holder: Holder
    look: Callable[[], ProxmoxSeen]  # observes the node as it is now


class Containers:
    """The containers of one node that a run may change; each is read again before every change."""

    def __init__(self, run: Run) -> None:
        self._client = run.client
        self._reporter = run.reporter
        self._expected = run.expected
        self._holder = run.holder
        self._look = run.look
        self._path = f"/nodes/{run.client.node}/lxc"

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

    def _clone_template(self, vmid: int, template: int, params: Params, notes: str) -> Got:
        """Clone a template, as a full copy where its storage has no linked clones; return values for later steps.

        The machine still has the template's host key, so its mark names that key.
        """
        source, mark = self.read(template), Mark.from_notes(notes)
        if source.mark is None or source.mark.role is not Role.TEMPLATE or mark is None:
            raise Refused(f"{source.name} is not a template of Paddock")
        marked = replace(mark, host_key=source.mark.host_key).written_into(notes)
        order = cloning.as_possible(self._client, source, {**params, "description": marked})
        if "full" in order:
            self._reporter(f"container {vmid} becomes a full copy of template {template}, which takes a while")
        with self._making(vmid):
            path, deadline = f"{self._path}/{template}/clone", _COPYING if "full" in order else _CLONING
            self._task("POST", path, order, deadline)
        return self._expected.record_created(vmid, mark)

    def _task(self, method: str, path: str, params: Params | None = None, deadline: float = 600) -> None:
        self._warn(self._client.task(method, path, params, deadline=deadline))

    def _warn(self, ended: TaskEnd) -> None:
        for warning in ended.warnings:
            self._reporter(warning)

    def _put(self, read: LxcContainer, params: Params) -> None:
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
        """Create a container. If the node goes down meanwhile, say where to look for an incomplete container.

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

    def _protect(self, vmid: int) -> None:
        """Protect a pet again, and remove this run's claim from it."""
        pet = self.read(vmid)
        self._put(pet, {"protection": 1, "description": without_claim(pet.notes)})

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


def resolved(value: str | int | Ref, got: Got) -> str:
    """Return a value of an action, which an earlier step may have found out."""
    return got[value.name] if isinstance(value, Ref) else str(value)


def with_version(notes: str) -> str:
    """Return the notes with the version of this Paddock in their mark."""
    mark = Mark.from_notes(notes)
    return replace(mark, by=__version__).written_into(notes) if mark else notes
