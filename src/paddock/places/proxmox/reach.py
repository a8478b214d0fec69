"""Reaching a machine over ssh without blind trust, and giving a clone host keys of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from paddock.errors import PaddockError
from paddock.guests import Unreachable, expect
from paddock.guests.ssh import SshGuest, scan_host_key
from paddock.places import Got
from paddock.places.proxmox import observe
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY
from paddock.places.proxmox.client import Client

_REACH_SECONDS: Final = 120


class Reacher:
    """Finds a running container's address, waits for its ssh, and knows which host key to expect."""

    def __init__(self, client: Client, key: Path, jump: str | None) -> None:
        self._client = client
        self._key = key
        self._jump = jump

    def guest(self, name: str, address: str, keys: Sequence[str]) -> SshGuest:
        """The channel to a machine that must answer with one of the keys."""
        trusted = tuple(f"ssh-ed25519 {key}" for key in keys)
        return SshGuest(name, address, key=self._key, host_keys=trusted, jump=self._jump)

    def reach(self, vmid: int, keys: Sequence[str], record: Callable[[str], None], *, clone: bool) -> Got:
        """Return address and host key of a machine that answers; ``record`` puts keys into its notes."""
        address, answered = self._answering(vmid)
        if not keys:
            # A container made from an archive has fresh keys that no API shows: the first one that answers at the
            # address the API gave is trusted, once.
            record(answered)
        elif answered not in keys:
            raise Unreachable(
                f"machine {vmid} at {address} answers with another ssh host key than the one on record",
                hint="someone else may have its address; if you reinstalled it, run `paddock cycle`",
            )
        elif clone and answered == keys[0]:
            answered = self._exchange(vmid, address, keys[0], record)
        elif len(keys) > 1:
            record(answered)
        return {ADDRESS.name: address, HOST_KEY.name: answered}

    def _answering(self, vmid: int) -> tuple[str, str]:
        end = time.monotonic() + _REACH_SECONDS
        pause = 0.05
        while True:
            address = observe.address(self._client, vmid)
            answered = scan_host_key(address, jump=self._jump) if address else None
            if address and answered:
                return address, answered.split()[1]
            if time.monotonic() > end:
                raise PaddockError(
                    f"machine {vmid} " + (f"has {address} but no ssh answers there" if address else "got no address"),
                    hint="does the bridge have DHCP, and can this machine route to it?",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _exchange(self, vmid: int, address: str, old: str, record: Callable[[str], None]) -> str:
        """Give a clone its own host key. Both are on record while it is not sure which one answers."""
        guest = self.guest(f"machine-{vmid}", address, [old])
        new = expect(guest, "making a host key", _script("stage")).split()[1]
        record(f"{old},{new}")
        expect(guest, "changing the host key", _script("switch"))
        record(new)
        return new


def _script(verb: str) -> list[str]:
    text = (resources.files(__package__) / "hostkey.sh").read_text(encoding="utf-8")
    return ["sh", "-c", text, "paddock", verb]
