"""Reaching machines, over ssh or through the node, with verified host keys, and giving a clone its own host key."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.base.clock import Wait
from paddock.base.errors import NeedsPerson, PaddockError
from paddock.base.frozen import frozen
from paddock.channels import Guest, Unreachable, expect
from paddock.channels import shared as early
from paddock.channels.pct import PctGuest, read_host_key
from paddock.channels.sent import script
from paddock.channels.shared import SharedConnection
from paddock.channels.ssh import SshGuest, listens, scan_host_key
from paddock.places.contract import Got
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY, REACHED
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node import reading
from paddock.places.proxmox.node.observation import options_of

_REACH_SECONDS: Final = 120
_LISTENING: Final = 0.3  # seconds to wait for a machine to listen, before the node is asked for its address again
_VISIT_SECONDS: Final = 20  # for a machine that is already running
_ED25519: Final = re.compile(r"AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}")


@frozen
class HostKeyTrust:
    """The evidence that a host key belongs to a machine."""

    on_record: Sequence[str] = ()  # keys in the machine's notes, once it was reached
    from_file: str | None = None  # a public key, or its fingerprint
    adopted_by: str | None = None  # the agent that adopts a machine which Paddock did not create


@frozen
class _Shared:
    """A connection for the commands on a machine that has this address and this host key."""

    address: str
    key: str
    connection: SharedConnection


class Reacher:
    """Finds a running container's address, waits until it answers, and verifies its host key.

    With ``node``, the shell of the node, programs are run with `pct exec` there instead of over ssh.
    """

    def __init__(self, client: Client, key: Path, jump: str | None, node: SshGuest | None = None) -> None:
        self._client = client
        self._key = key
        self._jump = jump
        self._node = node
        # By the number of the machine. Several agents are deployed at once, each with a machine of its own.
        self._shared: dict[int, _Shared] = {}

    def guest(self, name: str, vmid: int, address: str, keys: Sequence[str]) -> Guest:
        """Return a guest for a machine that must present one of the host keys."""
        if self._node:
            return PctGuest(name, self._node, vmid, tuple(keys))
        shared = self._shared.get(vmid)
        if shared is None or (shared.address, shared.key) != (address, ",".join(keys)):
            return early.through(self._ssh(name, address, keys))
        return self._ssh(name, address, keys, shared.connection.control)

    def _ssh(self, name: str, address: str, keys: Sequence[str], control: Path | None = None) -> SshGuest:
        trusted = tuple(f"ssh-ed25519 {key}" for key in keys)
        return SshGuest(name, address, key=self._key, host_keys=trusted, jump=self._jump, control=control)

    def close(self) -> None:
        """End the connections to machines."""
        for vmid in list(self._shared):
            self._end_shared(vmid)

    def _end_shared(self, vmid: int) -> None:
        if shared := self._shared.pop(vmid, None):
            shared.connection.close()

    def reach(
        self,
        vmid: int,
        known: HostKeyTrust,
        record: Callable[[str], None],
        *,
        clone: bool,
        card: str = "",
    ) -> Got:
        """Return address and host key of a machine once it answers; ``record`` writes host keys into its notes.

        ``card`` is its network card in the configuration. An address in it is the one that has to answer.
        """
        self._end_shared(vmid)  # the machine may have been stopped since it was last reached
        # A clone has the host key of its template.
        expected = known.on_record[0] if clone and len(known.on_record) == 1 else None
        address, answered = self._answering(vmid, _REACH_SECONDS, expected, card)
        self._check_key(vmid, address, answered, known)
        if not known.on_record:
            record(answered)
        elif clone and answered == known.on_record[0]:
            answered = self._exchange(vmid, address, answered, record)
        elif len(known.on_record) > 1:
            record(answered)
        return {ADDRESS.name: address, HOST_KEY.name: answered, REACHED.name: str(vmid)}

    def visit(self, name: str, vmid: int, known: HostKeyTrust) -> Guest:
        """Return a guest for a running machine, without changing its notes."""
        address, answered = self._answering(vmid, _VISIT_SECONDS)
        self._check_key(vmid, address, answered, known)
        return self.guest(name, vmid, address, [answered])

    def _check_key(self, vmid: int, address: str, answered: str, known: HostKeyTrust) -> None:
        if known.on_record:
            if answered not in known.on_record:
                raise Unreachable(
                    f"machine {vmid} at {address} answers with another ssh host key than the recorded one",
                    hint="another machine may have its address; if you reinstalled the machine, run `paddock cycle`",
                )
            return
        expected, source = known.from_file, "in the file"
        if expected is None:
            expected, source = self._logged(vmid), f"machine {vmid} was created with"
        if expected is None and self._node:
            return  # the node's root has read the key in the container itself
        if expected is None:
            raise _unknown_key(vmid, address, answered, known.adopted_by)
        if expected != fingerprint(answered) and expected.split()[1:2] != [answered]:
            raise Unreachable(
                f"{address} answers with another ssh host key than the one {source}: {fingerprint(answered)}",
                hint=f"another machine may have the address; to see its own key, run on the node: {_show_key(vmid)}",
            )

    def _logged(self, vmid: int) -> str | None:
        """Return the fingerprint from the log of a container's creation; a token may read only its own logs."""
        made = self._client.get(
            f"/nodes/{self._client.node}/tasks", {"vmid": vmid, "typefilter": "vzcreate", "source": "all", "limit": 1}
        )
        return logged_fingerprint(self._client.task_log(str(made[0]["upid"])) if made else [])

    def _answering(self, vmid: int, seconds: float, expected: str | None = None, card: str = "") -> tuple[str, str]:
        """Return address and host key of a machine once it answers. Connect to one with the expected key at once."""
        wait = Wait(seconds)
        fixed = reading.fixed_address({"net0": card})
        while True:
            seen = reading.cards(self._client, vmid)
            address = reading.reachable(seen)
            if fixed:
                address = fixed if any(fixed in each.addresses for each in seen) else None
            answered = self._host_key(vmid, address, expected) if address else None
            if address and answered:
                key = answered.split()[1]
                if not _ED25519.fullmatch(key):  # untrusted text, which goes into the notes and to the terminal
                    raise Unreachable(f"the ssh server at {address} has no host key of type ed25519")
                return address, key
            if wait.is_over:
                raise self._unanswered(vmid, address, fixed, seen, options_of(card).get("bridge"))
            wait.pause()

    def _unanswered(
        self, vmid: int, address: str | None, fixed: str | None, seen: Sequence[reading.Card], bridge: str | None
    ) -> PaddockError:
        """Return the error for a machine that does not answer, with its network cards as the node shows them."""
        if address:
            return PaddockError(
                f"machine {vmid} has the address {address}, but {self._way} does not answer",
                hint="check that this computer has a route to it; ssh.jump goes through another machine, and"
                " ssh.reach: pct through the node",
            )
        shown = "; ".join(map(str, seen)) or "it has no network card that is up"
        if fixed:
            return PaddockError(
                f"machine {vmid} does not have the address {fixed} of the file: {shown}",
                hint="Proxmox writes the address when the machine starts; its console on the node may show why it does"
                " not have it",
            )
        return PaddockError(
            f"machine {vmid} got no address: {shown}",
            hint=f"check that a DHCP server answers on {bridge or 'its bridge'}, or write machine.net.address",
        )

    @property
    def _way(self) -> str:
        return f"`pct exec` on {self._node.name}" if self._node else "ssh"

    def _host_key(self, vmid: int, address: str, expected: str | None) -> str | None:
        if self._node:
            return read_host_key(self._node, vmid)
        if not self._jump and not listens(address, _LISTENING):
            return None
        if expected and self._connected(vmid, address, expected):
            return f"ssh-ed25519 {expected}"
        return scan_host_key(address, jump=self._jump)

    def _connected(self, vmid: int, address: str, key: str) -> bool:
        """Connect to a machine if it has this host key. That proves more than a key scan, and takes no longer."""
        connection = SharedConnection.opened(self._ssh(f"machine-{vmid}", address, [key]))
        if not connection.is_open:
            connection.close()
            return False
        self._shared[vmid] = _Shared(address, key, connection)
        return True

    def _exchange(self, vmid: int, address: str, old: str, record: Callable[[str], None]) -> str:
        """Give a clone its own host key. Both keys are recorded until the new one is in use.

        The connection in which the clone named its new key is used for the rest of the run: another one that presents
        this key proves no more.
        """
        if not self._node and vmid not in self._shared:
            self._connected(vmid, address, old)
        guest = self.guest(f"machine-{vmid}", vmid, address, [old])
        new = expect(guest, "creating a host key", script("hostkey.sh", ["stage"])).split()[1]
        record(f"{old},{new}")
        expect(guest, "changing the host key", script("hostkey.sh", ["switch"]))
        record(new)
        if shared := self._shared.get(vmid):
            self._shared[vmid] = replace(shared, key=new)
        return new


def _unknown_key(vmid: int, address: str, answered: str, agent: str | None) -> PaddockError:
    """Return the error for a host key that nothing confirms."""
    shown = fingerprint(answered)
    if agent is None:
        return Unreachable(
            f"no log shows the ssh host key that machine {vmid} was created with; {address} answers with {shown}",
            hint="`paddock cycle` recreates the machine, and reads the log at once",
        )
    return NeedsPerson(
        f"container {vmid} answers at {address} with the ssh host key {shown}, and nothing confirms that key",
        hint=f"compare it with the output of this command in the node's shell: {_show_key(vmid)}\n"
        f"if they are the same, write machine.host_key: {shown}\n"
        f"or add --set agents.{agent}.machine.host_key={shown}",
    )


def _show_key(vmid: int) -> str:
    """Return the command that prints a container's host key in the node's shell."""
    return f"pct exec {vmid} -- ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub"


def fingerprint(key: str) -> str:
    """Return the fingerprint of a key's base64 part, as ssh-keygen prints it."""
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def logged_fingerprint(log: Iterable[str]) -> str | None:
    """Return the fingerprint of the ed25519 host key in the log of a container's creation."""
    lines = iter(log)
    for line in lines:
        if "'ssh_host_ed25519_key'" in line:
            done = next(lines, "").split()
            return done[1] if len(done) > 1 and done[0] == "done:" else None
    return None
