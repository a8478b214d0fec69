"""Reading and changing the configurations of containers, for all who carry out steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from paddock import __version__
from paddock.errors import PaddockError, Refused
from paddock.places.proxmox.claim import Claim, Holder
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.expected import ExpectedContainers
from paddock.places.proxmox.mark import Mark
from paddock.places.proxmox.seen import LxcContainer

_DELETING: Final = timedelta(minutes=5)


class Containers:
    """The containers of one node that a run knows, each as it is at the moment it is asked for."""

    def __init__(
        self, client: Client, reporter: Callable[[str], None], known: ExpectedContainers, holder: Holder
    ) -> None:
        self._client = client
        self._reporter = reporter
        self._expected = known
        self._holder = holder
        self._path = f"/nodes/{client.node}/lxc"

    def read(self, vmid: int) -> LxcContainer:
        """A container's configuration as it is now; raises unless it is the container that was planned for.

        Every step reads before it acts: Proxmox takes numbers, and one may be somebody else's by now.
        """
        config: dict[str, Any] = self._client.get(f"{self._path}/{vmid}/config")
        container = LxcContainer(vmid, "unknown", config)
        self._expected.check(container)
        return container

    def _marked(self, vmid: int) -> tuple[LxcContainer, Mark]:
        container = self.read(vmid)
        if container.mark is None:
            raise Refused(f"the mark of {container.name} is gone from its notes")
        return container, container.mark

    def _task(self, method: str, path: str, params: Mapping[str, str | int] | None = None) -> None:
        for warning in self._client.task(method, path, params).warnings:
            self._reporter(warning)

    def _put(self, read: LxcContainer, params: Mapping[str, str | int]) -> None:
        """Change a configuration, unless someone else did since it was read."""
        digest = str(read.config["digest"])
        self._client.send("PUT", f"{self._path}/{read.vmid}/config", {**params, "digest": digest})

    def _delete(self, container: LxcContainer, **changes: int) -> None:
        """Delete a container under a claim, unless someone else has one."""
        self._check_claim(container)
        # Whoever else read the same configuration now has a stale digest, or reads who is at it.
        self._put(container, {**changes, "description": self._claim(_DELETING).written_into(container.notes)})
        self._task("DELETE", f"{self._path}/{container.vmid}")

    def _claim(self, lasts: timedelta) -> Claim:
        """A claim of this run, from now on."""
        return Claim.new(self._holder, datetime.now(UTC), lasts)

    def _check_claim(self, container: LxcContainer) -> None:
        """Raise while another run is at work on a container."""
        other = Claim.from_notes(container.notes)
        if other and other.blocks(str(self._holder), datetime.now(UTC)):
            raise Refused(f"{other.holder} is at work on {container.name} until {other.until:%H:%M:%S} UTC")

    def _volume(self, vmid: int, key: str) -> str:
        mount = self.read(vmid).mount(key)
        if mount is None or mount.owner != vmid:
            raise PaddockError(f"container {vmid} has no volume of its own at {key} after it was given one")
        return mount.volume


def with_version(notes: str) -> str:
    """The notes with our version in their mark."""
    mark = Mark.from_notes(notes)
    return replace(mark, by=__version__).written_into(notes) if mark else notes
