"""The connection to a machine opens before the place was read, and is used only if the place confirms it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.channels import shared
from paddock.channels.ssh import SshGuest
from sshd import Sshd

BEE = "https://node:8006 pve home_bee"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/paddock/reached"


@pytest.fixture
def machine(server: Sshd, tmp_path: Path) -> SshGuest:
    """A machine that was reached before."""
    found = SshGuest("bee", "127.0.0.1", port=server.port, key=tmp_path / "id", host_keys=(server.key,))
    shared.remember(BEE, found)
    return found


def nowhere(folder: Path) -> SshGuest:
    """Return a machine that refuses connections."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    return SshGuest("bee", "127.0.0.1", port=1, key=folder / "id", host_keys=(key,))


def connections(server: Sshd) -> int:
    return len(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)


def test_the_first_command_uses_the_connection_that_was_begun(server: Sshd, machine: SshGuest) -> None:
    with shared.connecting(BEE):
        wait_for(lambda: connections(server) == 1)
        assert shared.through(machine).run(["echo", "hello"]).out == "hello\n"
        assert connections(server) == 1
    wait_for(lambda: connections(server) == 0)


def test_only_the_first_command_uses_it(machine: SshGuest) -> None:
    with shared.connecting(BEE):
        assert shared.through(machine).control
        assert shared.through(machine) == machine


@pytest.mark.parametrize(
    "other",
    [{"address": "127.0.0.2"}, {"host_keys": ("ssh-ed25519 AAAA",)}, {"user": "bee"}, {"key": Path("other")}],
    ids=lambda other: next(iter(other)),
)
def test_another_address_key_or_account_is_not_reached_through_it(machine: SshGuest, other: dict[str, object]) -> None:
    with shared.connecting(BEE):
        elsewhere = SshGuest(**{**vars(machine), **other})
        assert shared.through(elsewhere) == elsewhere


def test_a_machine_that_is_about_to_change_is_not_reached_through_it(machine: SshGuest) -> None:
    with shared.connecting(BEE):
        shared.end()
        assert shared.through(machine) == machine


def test_another_agent_and_an_agent_without_a_machine_have_no_connection(server: Sshd, machine: SshGuest) -> None:
    with shared.connecting("https://node:8006 pve home_ant"):
        assert shared.through(machine) == machine
    shared.remember(BEE, None)
    with shared.connecting(BEE):
        assert shared.through(machine) == machine
    # The test of the server's port may still be open.
    wait_for(lambda: connections(server) == 0)


def test_a_machine_that_does_not_answer_is_noticed_and_the_next_command_says_why(tmp_path: Path) -> None:
    gone = nowhere(tmp_path)
    shared.remember(BEE, gone)
    with shared.connecting(BEE):
        guest = shared.through(gone)
        assert guest.control
        assert not guest.control.exists()
        with pytest.raises(Exception, match="cannot be reached over ssh"):
            guest.run(["true"])


def test_what_is_remembered_has_no_connection_in_it(tmp_path: Path) -> None:
    shared.remember(BEE, replace(nowhere(tmp_path), control=tmp_path / "socket"))
    with shared.connecting(BEE):
        assert shared.through(nowhere(tmp_path)).control != tmp_path / "socket"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"key": null}', '{"key": "id", "host_keys": [], "more": 1}'])
def test_an_unreadable_memory_is_no_error(cache: Path, tmp_path: Path, text: str) -> None:
    shared.remember(BEE, nowhere(tmp_path))
    (file,) = cache.iterdir()
    file.write_text(text)
    with shared.connecting(BEE):
        assert shared.through(nowhere(tmp_path)) == nowhere(tmp_path)


def test_a_cache_that_cannot_be_written_to_is_no_error(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.touch()  # where the folder should be
    shared.remember(BEE, nowhere(tmp_path))
    shared.remember(BEE, None)
    with shared.connecting(BEE):
        assert shared.through(nowhere(tmp_path)) == nowhere(tmp_path)
