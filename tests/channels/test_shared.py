"""Several commands on a machine use one ssh connection. With a real sshd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from paddock.channels import Unreachable
from paddock.channels.shared import SharedConnection
from paddock.channels.ssh import SshGuest
from sshd import Sshd


def _guest(server: Sshd, folder: Path, control: Path | None = None) -> SshGuest:
    key = folder / "id"
    return SshGuest("box", "127.0.0.1", port=server.port, key=key, host_keys=(server.key,), control=control)


def _connections(server: Sshd) -> int:
    return len(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())


def test_commands_use_the_open_connection_and_keep_their_input_output_and_exit_code(
    server: Sshd, tmp_path: Path
) -> None:
    shared = SharedConnection.opened(_guest(server, tmp_path))
    try:
        guest = _guest(server, tmp_path, shared.control)
        data = os.urandom(300_000).hex()
        result = guest.run(["sh", "-c", "cat; echo told >&2; exit 7"], stdin=data.encode())
        assert (result.out, result.err, result.code) == (data, "told\n", 7)
        assert guest.run(["sh", "-c", 'echo "$PPID"']).out == guest.run(["sh", "-c", 'echo "$PPID"']).out
        assert _connections(server) == 1
    finally:
        shared.close()
    assert not shared.control.parent.exists()
    _wait(lambda: _connections(server) == 0)


def test_a_command_connects_by_itself_when_the_connection_has_ended(server: Sshd, tmp_path: Path) -> None:
    shared = SharedConnection.opened(_guest(server, tmp_path))
    guest = _guest(server, tmp_path, shared.control)
    assert server.cut_connections() == 1
    assert guest.run(["echo", "hello"]).out == "hello\n"
    shared.close()
    assert guest.run(["echo", "hello"]).out == "hello\n"


def test_a_machine_with_another_host_key_gets_no_connection(server: Sshd, tmp_path: Path) -> None:
    other = server.key[:-4] + ("AAAA" if server.key[-4:] != "AAAA" else "BBBB")
    wrong = SshGuest("box", "127.0.0.1", port=server.port, key=tmp_path / "id", host_keys=(other,))
    shared = SharedConnection.opened(wrong)
    try:
        assert not shared.control.exists()
        with pytest.raises(Unreachable):
            SshGuest(**{**vars(wrong), "control": shared.control}).run(["true"])
    finally:
        shared.close()


def test_only_this_account_can_use_the_connection(server: Sshd, tmp_path: Path) -> None:
    shared = SharedConnection.opened(_guest(server, tmp_path))
    try:
        assert shared.control.parent.stat().st_mode & 0o777 == 0o700
    finally:
        shared.close()


def test_the_connection_ends_when_the_run_is_killed(server: Sshd, tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from paddock.channels.shared import SharedConnection
from paddock.channels.ssh import SshGuest
key, host_key = Path({str(tmp_path / "id")!r}), {server.key!r}
guest = SshGuest("box", "127.0.0.1", port={server.port}, key=key, host_keys=(host_key,))
shared = SharedConnection.opened(guest)
print(shared.control, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        control = Path(run.stdout.readline().strip())
        assert control.exists()
        assert _connections(server) == 1
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)
    _wait(lambda: _connections(server) == 0 and not control.exists())


def _wait(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)
