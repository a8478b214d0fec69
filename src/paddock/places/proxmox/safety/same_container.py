"""Checking that a container is still the one that was planned for: another one may have its number by now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from paddock.base.errors import WorldChanged
from paddock.places.contract import Got
from paddock.places.proxmox.actions import HOST_KEY
from paddock.places.proxmox.node.notes import Mark
from paddock.places.proxmox.node.observation import LxcContainer, ProxmoxSeen

_CARD: Final = re.compile(r"net\d+")
_AGAIN: Final = "run the same command again"


class ExpectedContainers:
    """The containers that a run may change: those it observed, and those it created since."""

    def __init__(self, seen: ProxmoxSeen, got: Got) -> None:
        self._seen = seen.containers
        self._got = got
        self._made = dict(_marks(got, "mark of"))
        self._renamed = dict(_marks(got, "new mark of"))

    def record_created(self, vmid: int, mark: Mark) -> Got:
        """Record a container that this run created; return its mark for later steps, which compare it."""
        self._made[vmid] = mark
        return {f"mark of {vmid}": str(mark)}

    def record_renamed(self, vmid: int, mark: Mark) -> Got:
        """Record the new mark of an observed container; return it for later steps, which compare it."""
        self._renamed[vmid] = mark
        return {f"new mark of {vmid}": str(mark)}

    def check(self, now: LxcContainer) -> None:
        """Raise unless the container just read is the one that was planned for."""
        if now.vmid in self._made:
            same = _purpose(now.mark) == _purpose(self._made[now.vmid])
        elif (planned := self._seen.get(now.vmid)) is None:
            same = False
        elif planned.mark is None:
            # A container without a mark is adopted: only its configuration tells it from another one.
            same = _look(now.config) == _look(planned.config) and _root(now) == _root(planned)
        else:
            mark = self._renamed.get(now.vmid, planned.mark)
            same = _purpose(now.mark) == _purpose(mark) and _root(now) == _root(planned)
            same = same and self._may_have_keys(planned.mark, now.mark)
        if not same:
            raise WorldChanged(
                f"{now.name} is not the container that was planned for, or its mark has changed", hint=_AGAIN
            )

    def check_volume(self, now: LxcContainer, key: str) -> None:
        """Raise unless the key still names the volume that it named in the observation."""
        planned = self._seen.get(now.vmid)
        before, there = planned.mount(key) if planned else None, now.mount(key)
        if before and (there is None or there.volume != before.volume):
            raise WorldChanged(f"{now.name} has another volume at {key} than when this was planned", hint=_AGAIN)

    def _may_have_keys(self, planned: Mark, now: Mark | None) -> bool:
        """Whether the host keys fit: a machine recreated meanwhile has the same mark, but other host keys."""
        expected = {*planned.host_keys, self._got.get(HOST_KEY.name)}
        return not planned.host_keys or now is None or not expected.isdisjoint(now.host_keys)


def check_key_free(now: LxcContainer, key: str, volume: str) -> None:
    """Raise when another volume has the key and would be replaced."""
    there = now.mount(key)
    if there is not None and there.volume != volume:
        raise WorldChanged(f"{now.name} has {there.volume} at {key} by now", hint=_AGAIN)


def _marks(got: Got, words: str) -> Iterator[tuple[int, Mark]]:
    """Yield the marks that earlier steps recorded under these words, with their containers."""
    for name, notes in got.items():
        match, mark = re.fullmatch(rf"{words} (\d+)", name), Mark.from_notes(notes)
        if match and mark:
            yield int(match[1]), mark


def _purpose(mark: Mark | None) -> tuple[Any, ...] | None:
    return (mark.role, mark.agent, mark.template, mark.epoch) if mark else None


def _root(container: LxcContainer) -> str | None:
    root = container.mount("rootfs")
    return root.volume if root else None


def _look(config: Any) -> tuple[Any, ...]:
    """Return the host name and the MAC addresses, which Proxmox picks at random."""
    cards = [str(config[key]) for key in sorted(config) if _CARD.fullmatch(key)]
    return config.get("hostname"), tuple(re.findall(r"hwaddr=([0-9A-Fa-f:]+)", ",".join(cards)))
