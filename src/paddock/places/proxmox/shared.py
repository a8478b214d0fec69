"""One reading of a node for all agents of a run, instead of one reading for each agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from paddock import clock
from paddock.places import MachineWant
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.numbering import is_taken
from paddock.places.proxmox.observe import Reading, for_agent
from paddock.places.proxmox.seen import ProxmoxSeen

_FRESH_SECONDS: Final = 60.0  # a run over many agents can take long
_READING_SHARE: Final = 0.1  # the most of a run's time that goes to readings, on a slow node


class SharedReading:
    """A reading of the node that several agents use, until this run changes something or the reading is old.

    It shows what a verb reports, and that nothing is to be done. No step relies on it: what `up` changes is planned
    from an observation of its own, and each step reads its container again.
    """

    def __init__(self, client: Client, read: Callable[[], Reading]) -> None:
        self._client = client
        self._read = read
        self._lock = threading.Lock()  # the first agent reads, the others wait for it
        self._reading: Reading | None = None
        self._old_at = 0.0  # by the monotonic clock
        self._taken: dict[int, bool] = {}  # numbers that were asked for, since the reading
        self._changed = False

    def end(self) -> None:
        """Stop sharing, because this run changes something."""
        self._changed = True

    def seen(self, want: MachineWant | None) -> ProxmoxSeen | None:
        """Return the observation for an agent; None if the agent needs one of its own."""
        with self._lock:
            if self._changed:
                return None
            if self._reading is None or clock.monotonic() > self._old_at:
                self._reading = self._new_reading()
            reading = self._reading
        if want is None:
            return reading.seen
        return for_agent(self._client, want, reading.seen, self._is_taken) if reading.settled_for(want) else None

    def _new_reading(self) -> Reading:
        began = clock.monotonic()
        reading = self._read()
        now = clock.monotonic()
        self._old_at = now + max(_FRESH_SECONDS, (now - began) / _READING_SHARE)
        self._taken = {}
        return reading

    def _is_taken(self, vmid: int) -> bool:
        with self._lock:
            if vmid not in self._taken:
                self._taken[vmid] = is_taken(self._client, vmid)
            return self._taken[vmid]
