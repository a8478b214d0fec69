"""The arguments that ssh is called with, recorded by a fake ssh on PATH, and what Paddock says when ssh fails."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from paddock.base.errors import PaddockError
from paddock.channels import Unreachable
from paddock.channels.ssh import SshGuest
from sshd import Sshd

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIfake"
KEY_OF_ANOTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an ssh on PATH that records its arguments and runs the command in SSH_DOES."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'printf "%s\\n" "$@" > {tmp_path}/argv\n'
        f'for word; do case $word in UserKnownHostsFile=*) cp "${{word#*=}}" {tmp_path}/known ;; esac; done\n'
        'eval "$SSH_DOES"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SSH_DOES", "cat")
    return tmp_path


def test_a_given_host_key_is_required_for_the_name_whatever_the_address(fake_ssh: Path) -> None:
    guest = SshGuest("hermes", "192.0.2.7", key=Path("/k"), host_keys=(KEY, KEY + "2"))
    result = guest.run(["sh", "-c", "echo 'a b'"], stdin=b"hello")
    words = (fake_ssh / "argv").read_text().splitlines()
    assert result.out == "hello"
    assert {
        "StrictHostKeyChecking=yes",
        "HostKeyAlias=hermes",
        "HostKeyAlgorithms=ssh-ed25519",
        "BatchMode=yes",
    } <= set(words)
    assert (fake_ssh / "known").read_text() == f"hermes {KEY}\nhermes {KEY}2\n"
    assert words[-1] == """sh -c 'echo '"'"'a b'"'"''"""
    assert words[-3:-1] == ["192.0.2.7", "--"]


def test_without_a_given_host_key_the_users_known_hosts_is_used(fake_ssh: Path) -> None:
    SshGuest("box", "192.0.2.7", user="admin", port=2222).run(["true"])
    words = (fake_ssh / "argv").read_text().splitlines()
    assert "StrictHostKeyChecking=yes" in words
    assert not any(word.startswith("UserKnownHostsFile") for word in words)
    assert words[words.index("-p") + 1] == "2222"
    assert words[words.index("-l") + 1] == "admin"


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(
    fake_ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(PaddockError, match="paddock/ssh_config cannot be written to"):
        SshGuest("box", "192.0.2.7").run(["true"])


def test_keys_of_machines_that_are_gone_do_not_stay_in_the_cache(
    fake_ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each recreated machine has another key."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(fake_ssh / "cache"))
    long_ago, kept = time.time() - 7200, fake_ssh / "cache/paddock/known_hosts"

    def reach(key: str) -> Path:
        SshGuest("hermes", "192.0.2.7", host_keys=(key,)).run(["true"])
        return next(path for path in kept.iterdir() if path.is_file() and key in path.read_text())

    gone, used = reach(f"{KEY}1"), reach(f"{KEY}2")
    (kept / "tmp-of-a-killed-run").mkdir()
    for path in kept.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert reach(f"{KEY}2") == used
    new = reach(f"{KEY}3")
    assert {*kept.iterdir()} == {used, new}
    assert not gone.exists()


def test_the_error_shows_the_message_of_ssh(fake_ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_DOES", "echo 'Connection refused' >&2; exit 255")
    with pytest.raises(Unreachable, match=r"box cannot be reached over ssh at 192\.0\.2\.7: Connection refused"):
        SshGuest("box", "192.0.2.7").run(["true"])


def test_the_error_names_the_key_that_a_machine_sent_instead_of_its_own(server: Sshd, tmp_path: Path) -> None:
    shown = subprocess.run(["ssh-keygen", "-lf", "-"], input=server.key.encode(), capture_output=True, check=True)
    guest = SshGuest("box", "127.0.0.1", port=server.port, key=tmp_path / "id", host_keys=(KEY_OF_ANOTHER,))
    with pytest.raises(Unreachable) as raised:
        guest.run(["true"])
    sent = shown.stdout.decode().split()[1]
    assert raised.value.message.endswith(f": Host key verification failed. It sent the key {sent}.")


def test_the_exit_code_of_the_remote_program_is_returned(fake_ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_DOES", "exit 3")
    assert SshGuest("box", "192.0.2.7").run(["false"]).code == 3
