"""Machines behind a jump host, with a real sshd for both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from paddock.channels import Unreachable
from paddock.channels.ssh import SshGuest, scan_host_key
from paddock.kinds import load
from paddock.places.host.place import guest_of
from sshd import Sshd, sshd

CONFIG = """\
Host *
IdentityFile {folder}/id
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
"""
# ssh reads ~/.ssh/config of the account, whatever HOME is. This wrapper makes it read the test's configuration instead,
# also in the connection to the jump host, which ssh makes with its own options.
SSH = """\
#!/bin/sh
for word; do
    if [ "$before" = -F ] && [ -f "$word" ]; then
        sed 's|~/.ssh/config|{folder}/config|' "$word" >{folder}/config-of-paddock
        word={folder}/config-of-paddock
    fi
    before=$word
    set -- "$@" "$word"
    shift
done
exec /usr/bin/ssh "$@"
"""


@contextmanager
def network(folder: Path, monkeypatch: pytest.MonkeyPatch, jumping: str) -> Iterator[tuple[Sshd, Sshd]]:
    """Start a jump host and a machine; the user's known_hosts has only the jump host."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    (folder / "config").write_text(CONFIG.format(folder=folder))
    program = folder / "bin/ssh"
    program.parent.mkdir()
    program.write_text(SSH.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    with ExitStack() as stack:
        found = []
        for name, settings in (("jump", jumping), ("machine", "")):
            (folder / name).mkdir()
            found.append(stack.enter_context(sshd(folder / name, folder / "id.pub", settings)))
        jump, machine = found
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{jump.port} {jump.key}\n")
        yield jump, machine


def _machine(folder: Path, jump: Sshd, machine: Sshd) -> SshGuest:
    """Return the machine as a file names it."""
    host = {
        "address": "127.0.0.1",
        "port": machine.port,
        "key": str(folder / "id"),
        "host_key": machine.key,
        "jump": f"root@127.0.0.1:{jump.port}",
    }
    agent = "{kind: service, place: far, command: [sleep, inf]}"
    (folder / "paddock.yaml").write_text(
        f"project: home\nplaces: {{far: {{host: {host}}}}}\nagents: {{web: {agent}}}\n"
    )
    spec = load(folder / "paddock.yaml").spec.places["far"].host
    assert spec is not None
    found = guest_of("web", spec, folder / "id")
    assert isinstance(found, SshGuest)
    return found


def test_a_machine_is_reached_through_its_jump_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with network(tmp_path, monkeypatch, "LogLevel VERBOSE\n") as (jump, machine):
        guest = _machine(tmp_path, jump, machine)
        result = guest.run(["cat"], stdin=b"a secret on stdin")
        assert (result.code, result.out) == (0, "a secret on stdin")
        assert "Accepted publickey" in (tmp_path / "jump/log").read_text()
        assert scan_host_key("127.0.0.1", machine.port, guest.jump) == machine.key


def test_a_jump_host_that_refuses_to_forward_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        network(tmp_path, monkeypatch, "AllowTcpForwarding no\n") as (jump, machine),
        pytest.raises(Unreachable, match="web cannot be reached over ssh at 127"),
    ):
        _machine(tmp_path, jump, machine).run(["true"])
