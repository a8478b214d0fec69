"""Verifying the ssh host key of a machine against the log of its creation, or the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from asked import answer, asked
from paddock.base.process import Result
from paddock.channels import Unreachable
from paddock.channels.ssh import SshGuest
from paddock.core import observe as observing
from paddock.core.converge import up
from paddock.core.observe import Observation
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import locate
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.machine import reach as capacity
from paddock.places.proxmox.machine.reach import HostKeyTrust, Reacher, fingerprint, logged_fingerprint
from paddock.places.proxmox.node import reading
from places.node import CATTLE, Node, PlayedSsh

LOG = [
    "Detected container architecture: amd64",
    "Creating SSH host key 'ssh_host_rsa_key' - this may take some time ...",
    "done: SHA256:5yn6t45jPF8cnLXk7qG+TjhnKe5F4crG6CUvtqhsYUQ root@localhost",
    "Creating SSH host key 'ssh_host_ed25519_key' - this may take some time ...",
    "done: SHA256:p1zX3tUHEnzVtgHRiB7zWBkvebdIwjfQy6YXRBDrcF0 root@localhost",
]


def test_the_fingerprint_is_read_from_the_log_of_the_creation() -> None:
    assert logged_fingerprint(LOG) == "SHA256:p1zX3tUHEnzVtgHRiB7zWBkvebdIwjfQy6YXRBDrcF0"


@pytest.mark.parametrize("log", [[], LOG[:3], LOG[:4], [*LOG[:3], LOG[3], "failed"]])
def test_a_log_without_a_fingerprint_gives_none(log: list[str]) -> None:
    assert logged_fingerprint(log) is None


def test_the_fingerprint_has_the_format_of_ssh_keygen() -> None:
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert fingerprint(key) == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


NOTHING = HostKeyTrust()


class _Node:
    """A node with the log of the creation of machine 105."""

    node = "pve"

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def get(self, path: str, params: dict[str, Any]) -> list[dict[str, str]]:
        return [{"upid": "UPID:pve:1:1:1:vzcreate:105:a@pve!b:"}] if self.log else []

    def task_log(self, upid: str) -> list[str]:
        return self.log


def _reached(
    monkeypatch: pytest.MonkeyPatch, log: list[str], known: HostKeyTrust = NOTHING, shell: SshGuest | None = None
) -> list[str]:
    """Return the recorded host keys."""
    monkeypatch.setattr(reading, "cards", lambda *_: [reading.Card("eth0", "bc:24:11:00:00:05", ("192.0.2.5",))])
    monkeypatch.setattr(capacity, "listens", lambda *_: True)
    monkeypatch.setattr(capacity, "scan_host_key", lambda address, jump=None: f"ssh-ed25519 {KEY}")
    monkeypatch.setattr(capacity, "read_host_key", lambda node, vmid: f"ssh-ed25519 {KEY}")
    recorded: list[str] = []
    reacher = Reacher(cast(Client, _Node(log)), Path("id"), None, shell)
    reacher.reach(105, known, recorded.append, clone=False)
    return recorded


def test_a_host_key_that_matches_the_log_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _reached(monkeypatch, [LOG[3], f"done: {fingerprint(KEY)} root@localhost"]) == [KEY]


def test_a_host_key_that_differs_from_the_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="answers with another ssh host key"):
        _reached(monkeypatch, LOG)


def test_a_machine_without_a_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="no log shows the ssh host key that machine 105 was created with") as caught:
        _reached(monkeypatch, [])
    assert "paddock cycle" in str(caught.value.hint)


@pytest.mark.parametrize("told", [fingerprint(KEY), f"ssh-ed25519 {KEY}", f"ssh-ed25519 {KEY} root@hermes"])
@pytest.mark.parametrize("log", [[], LOG])
def test_a_host_key_that_matches_the_file_is_recorded(
    monkeypatch: pytest.MonkeyPatch, told: str, log: list[str]
) -> None:
    """The key in the file wins, because a user may have changed the container's keys after its creation."""
    assert _reached(monkeypatch, log, HostKeyTrust(from_file=told, adopted_by="bee")) == [KEY]


@pytest.mark.parametrize("told", [f"SHA256:{'A' * 43}", f"ssh-ed25519 {KEY[:-1]}A"])
def test_a_host_key_that_differs_from_the_file_is_refused(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    with pytest.raises(Unreachable, match="answers with another ssh host key than the one in the file") as caught:
        _reached(monkeypatch, [], HostKeyTrust(from_file=told, adopted_by="bee"))
    assert "pct exec 105 -- ssh-keygen -l -f" in str(caught.value.hint)


@pytest.mark.parametrize("key", ["AAAA,BBBB", "AAAA\x1b[31m", f"{KEY}A", f"{KEY[:-1]}\u00e9", "AAAAC3NzaC1"])
def test_a_malformed_host_key_is_not_recorded(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(__name__ + ".KEY", key)
    with pytest.raises(Unreachable, match="has no host key of type ed25519"):
        _reached(monkeypatch, [])


def test_a_key_that_the_node_reads_in_the_container_needs_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SshGuest("root@node", "node")
    assert _reached(monkeypatch, [], shell=shell) == [KEY]
    assert _reached(monkeypatch, [], HostKeyTrust(adopted_by="bee"), shell) == [KEY]
    with pytest.raises(Unreachable, match="answers with another ssh host key"):
        _reached(monkeypatch, LOG, shell=shell)


def look(node: Node) -> Observation:
    """Observe the agent, including the inside of its machine."""
    return observing.observe(replace(locate(node.agent()), machine_side=OnMachine()))


def test_observe_waits_for_a_machine_that_has_just_started(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    up(node.agent())
    refused = [Unreachable("Connection refused")] * 2

    def observed(self: PlayedSsh, argv: Sequence[str], *, stdin: bytes, **_: Any) -> Result:
        if refused:
            raise refused.pop()
        assert asked(stdin)[0] == "Observe"
        return Result(tuple(argv), 0, answer({"bundle_id": "g1"}), "", 0.0)

    monkeypatch.setattr(PlayedSsh, "run", observed)
    inside = look(node).agent
    assert inside is not None
    assert inside.bundle_id == "g1"
    refused += [Unreachable("Connection refused")] * 2
    usage = node.machines.usage(CATTLE)
    monkeypatch.setattr(node.machines, "usage", lambda vmid: replace(usage, uptime=3600))
    assert look(node).unreachable is not None


class _Connection:
    """Stands for a shared connection: it opens if the machine has the key that the guest trusts."""

    control = Path("/nonexistent")

    def __init__(self, guest: SshGuest) -> None:
        self.is_open = guest.host_keys == (f"ssh-ed25519 {KEY}",)

    @classmethod
    def opened(cls, guest: SshGuest) -> _Connection:
        return cls(guest)

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("known", "scans"), [(KEY, 0), (f"{KEY[:-1]}A", 1)])
def test_a_clone_is_reached_with_the_key_of_its_template_and_scanned_only_without_it(
    monkeypatch: pytest.MonkeyPatch, known: str, scans: int
) -> None:
    scanned: list[str] = []

    def scan(address: str, **_: Any) -> str:
        scanned.append(address)
        return f"ssh-ed25519 {KEY}"

    monkeypatch.setattr(reading, "cards", lambda *_: [reading.Card("eth0", "bc:24:11:00:00:05", ("192.0.2.5",))])
    monkeypatch.setattr(capacity, "listens", lambda *_: True)
    monkeypatch.setattr(capacity, "scan_host_key", scan)
    monkeypatch.setattr(capacity, "SharedConnection", _Connection)
    new = f"{KEY[:-1]}B"
    monkeypatch.setattr(SshGuest, "run", lambda self, argv, **_: Result(tuple(argv), 0, f"ssh-ed25519 {new}", "", 0.0))
    recorded: list[str] = []
    reacher = Reacher(cast(Client, _Node([])), Path("id"), None)
    trust = HostKeyTrust(on_record=[known])
    if scans:
        with pytest.raises(Unreachable, match="another ssh host key than the recorded one"):
            reacher.reach(105, trust, recorded.append, clone=True)
        assert recorded == []
    else:
        assert reacher.reach(105, trust, recorded.append, clone=True)["host key"] == new
        assert recorded == [f"{KEY},{new}", new]
    assert len(scanned) == scans
