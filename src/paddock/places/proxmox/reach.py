"""Reaching a machine over ssh without blind trust, and giving a clone host keys of its own."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
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

    def __init__(self, client: Client, key: Path, jump: str | None, story: Callable[[str], None]) -> None:
        self._client = client
        self._story = story
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
            self._check_first_key(vmid, address, answered)
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

    def _check_first_key(self, vmid: int, address: str, answered: str) -> None:
        """A container made from an archive has fresh keys; the log of its making tells their fingerprints."""
        made = self._client.get(
            f"/nodes/{self._client.node}/tasks", {"vmid": vmid, "typefilter": "vzcreate", "source": "all", "limit": 1}
        )
        log = self._client.task_log(str(made[0]["upid"])) if made else []
        expected = logged_fingerprint(log)
        if expected is None:
            self._story(f"the log of making {vmid} is gone; the ssh host key that answers at {address} is trusted")
        elif expected != fingerprint(answered):
            raise Unreachable(
                f"at {address} answers another ssh host key than the one machine {vmid} was made with",
                hint="someone else may have its address",
            )

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


def fingerprint(key: str) -> str:
    """Return the fingerprint of a key's base64 part, as ssh-keygen prints it."""
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def logged_fingerprint(log: Iterable[str]) -> str | None:
    """Return the fingerprint of the ed25519 host key that the log of a create tells of."""
    lines = iter(log)
    for line in lines:
        if "'ssh_host_ed25519_key'" in line:
            done = next(lines, "").split()
            return done[1] if len(done) > 1 and done[0] == "done:" else None
    return None


def _script(verb: str) -> list[str]:
    text = (resources.files(__package__) / "hostkey.sh").read_text(encoding="utf-8")
    return ["sh", "-c", text, "paddock", verb]
