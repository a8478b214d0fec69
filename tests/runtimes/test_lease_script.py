"""The program of the lease, with a socket in the place of systemd's notification socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paddock.onboard import lease

_PASS_ON = """
import os, sys
kept = int(sys.argv[1])
if kept != 3:
    os.dup2(kept, 3)
    os.close(kept)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass
class Manager:
    """The part of systemd: it listens, keeps one descriptor and passes it to the next process of the unit."""

    folder: Path
    store: int | None = None
    said: list[str] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[str]]:
        """Start a process of the unit and wait until it is ready or has ended; kill it at the end of the block."""
        address = self.folder / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(str(address))
            listening.settimeout(0.1)
            environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(address)}
            argv = [sys.executable, "-I", "-S", lease.__file__, str(self.state), "home_web"]
            if self.store is not None:
                environment["LISTEN_FDS"] = "1"
                argv = [sys.executable, "-c", _PASS_ON, str(self.store), *argv]
            given = () if self.store is None else (self.store,)
            running = subprocess.Popen(argv, env=environment, pass_fds=given, stdout=subprocess.PIPE, text=True)
            try:
                while running.poll() is None and not self._heard(listening):
                    pass
                yield running
            finally:
                running.kill()
                running.communicate()

    def _heard(self, listening: socket.socket) -> bool:
        try:
            said, sent, _, _ = socket.recv_fds(listening, 4096, 4)
        except TimeoutError:
            return False
        self.said.append(said.decode())
        if said.startswith(b"FDSTOREREMOVE=1"):
            self.let_go()
        if said.startswith(b"FDSTORE=1"):
            assert self.store is None, "the store is full"
            self.store = sent.pop()
        assert not sent
        return said.startswith(b"READY=1")

    def let_go(self) -> None:
        if self.store is not None:
            os.close(self.store)
        self.store = None

    def is_free(self) -> bool:
        return subprocess.run(["flock", "--nonblock", self.state / ".paddock/lease", "true"]).returncode == 0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    (tmp_path / "state/.paddock").mkdir(parents=True)
    (tmp_path / "state/.paddock/identity").write_text("version=2\nagent=home_web\nid=1\n")
    found = Manager(tmp_path)
    yield found
    found.let_go()


def test_the_lock_outlives_its_process_and_ends_with_the_unit(manager: Manager) -> None:
    with manager.process() as holder:
        assert holder.poll() is None
        assert manager.said[-1] == f"READY=1\nSTATUS=holds {manager.state}"
        assert not manager.is_free()
    assert not manager.is_free(), "its holder was killed, and the agent may still run"
    manager.let_go()
    assert manager.is_free()


def test_the_next_process_of_the_unit_gets_the_lock_back(manager: Manager) -> None:
    with manager.process():
        pass
    manager.said.clear()
    with manager.process() as next_one:
        assert next_one.poll() is None
        assert len(manager.said) == 1, "it is kept already"
        manager.let_go()
        assert not manager.is_free(), "the process holds it too"
    assert manager.is_free()


def test_another_machine_is_refused_while_systemd_keeps_the_lock(manager: Manager, tmp_path: Path) -> None:
    other = Manager(tmp_path)
    with manager.process():
        pass
    with other.process() as refused:
        assert refused.wait() == 75
        assert refused.stdout is not None
        assert "paddock: the state of web is held by" in refused.stdout.read()
    assert other.said == []
    manager.let_go()
    with other.process() as holder:
        assert holder.poll() is None
    other.let_go()


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        ("agent=web\nid=1\n", "is the state of another agent: web, which has no project"),
        ("version=2\nagent=lab_web\nid=1\n", "is the state of another agent: web of project lab"),
        ("version=3\nagent=home_web\nid=1\n", "a newer Paddock wrote"),
    ],
)
def test_the_lease_on_the_state_of_another_agent_is_refused(manager: Manager, identity: str, told: str) -> None:
    (manager.state / ".paddock/identity").write_text(identity)
    with manager.process() as refused:
        assert refused.wait() == 78
        assert refused.stdout is not None
        assert told in refused.stdout.read()
    assert manager.is_free()


def test_a_lock_on_a_file_that_was_replaced_is_not_the_lease(manager: Manager) -> None:
    with manager.process():
        pass
    held = manager.state / ".paddock/lease"
    held.rename(held.with_name("was"))
    with manager.process() as holder:
        assert holder.poll() is None
        assert manager.said[-3:-1] == ["FDSTOREREMOVE=1\nFDNAME=lease", "FDSTORE=1\nFDNAME=lease"]
    assert not manager.is_free()
