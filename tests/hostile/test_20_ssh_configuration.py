"""Finding 20: the user's ssh configuration gave the agent's machine their ssh agent, display, variables and ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hostile.keyboard import keyboard
from paddock.guests.ssh import SshGuest
from paddock.process import DeadlinePassed
from sshd import free_port, sshd

PERSON = """\
Host alias
  HostName 127.0.0.1
Host 127.0.0.1 alias
  IdentityFile {key}
  ForwardAgent yes
  ForwardX11 yes
  ForwardX11Trusted yes
  SendEnv LANG LC_* MY_*
  SetEnv MY_SETTING=mine
  RemoteForward {there} 127.0.0.1:22
  LocalForward {here} 127.0.0.1:22
  ControlMaster auto
  ControlPath {folder}/shared
  ControlPersist 5
  PermitLocalCommand yes
  LocalCommand touch {folder}/local-command
  Tunnel yes
  GSSAPIDelegateCredentials yes
  RequestTTY force
  UpdateHostKeys yes
  AddKeysToAgent yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
Host *
  SendEnv EVERYWHERE
"""
# ssh reads ~/.ssh/config of the account, whatever HOME is. This wrapper makes it read the test's configuration instead.
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
exec /usr/bin/ssh {first} -F {folder}/config "$@"
"""


@dataclass(frozen=True)
class Person:
    """A user of Paddock whose ssh configuration forwards everything."""

    folder: Path
    here: int
    there: int

    def ssh(self, first: str) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        program = self.folder / "bin/ssh"
        program.write_text(SSH.format(folder=self.folder, first=first))
        program.chmod(0o755)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    found = Person(tmp_path, free_port(), free_port())
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    text = PERSON.format(folder=tmp_path, key=key, here=found.here, there=found.there)
    (tmp_path / "config").write_text(text)
    found.ssh("")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("MY_TOKEN", "EVERYWHERE", "LC_PAPER", "LANG"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("DISPLAY", ":77")
    yield found
    # Closes a shared connection, if a failing test left one.
    subprocess.run(
        ["/usr/bin/ssh", "-F", "none", "-S", str(tmp_path / "shared"), "-O", "exit", "x"], capture_output=True
    )


def test_ssh_reports_that_all_forwarding_options_are_off(person: Person) -> None:
    person.ssh("-G")
    said = SshGuest("box", "alias", key=person.folder / "id").run(["true"]).out
    options: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name, []).append(value)
    given = {
        name: value
        for name, value in options.items()
        if name in ("sendenv", "controlpath", "localforward", "remoteforward", "dynamicforward", "remotecommand")
        or (name in ("forwardagent", "forwardx11", "forwardx11trusted", "permitlocalcommand") and value != ["no"])
        or (name in ("tunnel", "controlmaster", "updatehostkeys", "addkeystoagent") and value != ["false"])
        or (name == "gssapidelegatecredentials" and value != ["no"])
        or (name == "requesttty" and value != ["false"])
        or (name == "setenv" and "MY_" in str(value))
    }
    assert given == {}, f"the agent's machine gets these of the user: {given}"
    # The user's configuration still decides how the machine is reached.
    assert options["hostname"] == ["127.0.0.1"]
    assert str(person.folder / "id") in options["identityfile"]


# With a real sshd


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, person: Person) -> Iterator[SshGuest]:
    """Start an sshd that accepts all forwardings and variables."""
    accepted = "AcceptEnv *\nX11Forwarding yes\nAllowAgentForwarding yes\nPermitTunnel yes\n"
    with sshd(tmp_path_factory.mktemp("machine"), person.folder / "id.pub", accepted) as server:
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(person.folder / "agent")], stdout=subprocess.DEVNULL)
        try:
            key = person.folder / "id"
            yield SshGuest("machine", "127.0.0.1", port=server.port, key=key, host_keys=(server.key,))
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(10)


@pytest.mark.parametrize("by", ["itself", "a jump host"])
def test_the_machine_gets_no_variable_port_or_connection_of_the_user(
    machine: SshGuest, person: Person, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "a jump host":
        machine = replace(machine, jump=f"root@alias:{machine.port}")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(person.folder / "agent"))
    listening = f"cat /proc/net/tcp | grep -c ':{person.there:04X} .* 0A ' || true"
    try:
        found = machine.run(["sh", "-c", f"env; echo ports: $({listening})"], deadline=20).out
    except DeadlinePassed:
        pytest.fail("the connection to the jump host was left open and shared")
    arrived = [
        line
        for line in found.splitlines()
        if line.startswith(("SSH_AUTH_SOCK=", "DISPLAY=", "MY_", "EVERYWHERE=", "LC_", "LANG=", "XAUTHORITY="))
    ]
    assert arrived == [], f"the agent's machine got these variables of the user: {arrived}"
    assert "ports: 0" in found, "the user's RemoteForward was opened on the agent's machine"
    assert not (person.folder / "local-command").exists(), "the user's LocalCommand ran"
    assert not (person.folder / "shared").exists(), "the connection was left open and shared"


def test_forward_opens_only_the_requested_port(machine: SshGuest, person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        port, local = service.getsockname()[1], free_port()
        program = person.folder / "forward.py"
        program.write_text(
            f"from pathlib import Path, PosixPath\nfrom paddock.guests.ssh import SshGuest\n"
            f"print('ended with', {machine!r}.forward({local}, {port}))\n"
        )
        with keyboard() as at:
            at.type(f"{sys.executable} {program}\n")
            end = time.monotonic() + 20
            while not reachable(local):
                assert time.monotonic() < end, at.screen
                at.sees("never", 0.05)
            opened = [number for number in (person.here, person.there) if reachable(number)]
            assert opened == [], "the user's own forwardings were opened too"
            at.type("\x03")
            at.expect("ended with 130")
            assert not reachable(local)


def test_forward_ends_when_ctrl_c_arrives_while_python_deletes_an_object(machine: SshGuest, person: Person) -> None:
    _forward_ends(machine, person, "class Deleted:\n    def __del__(self):\n        press_ctrl_c()\nDeleted()\n")


def test_forward_ends_when_ssh_misses_the_signal(machine: SshGuest, person: Person) -> None:
    stop_ssh = "import os\nfor pid in children():\n    os.kill(pid, signal.SIGSTOP)\n"
    _forward_ends(machine, person, stop_ssh + "press_ctrl_c()\n")


def _forward_ends(machine: SshGuest, person: Person, when_forwarding: str) -> None:
    program = person.folder / "forward.py"
    program.write_text(
        "import signal\nfrom pathlib import Path, PosixPath\nfrom paddock import process\n"
        "from paddock.guests.ssh import SshGuest\n"
        "def press_ctrl_c():\n    signal.raise_signal(signal.SIGINT)\n"
        "def children():\n    return map(int, Path('/proc/thread-self/children').read_text().split())\n"
        "run = process.run\n"
        f"def interrupted(argv):\n    result = run(argv)\n    exec({when_forwarding!r}, globals())\n    return result\n"
        "process.run = interrupted\n"
        f"print('ended with', {machine!r}.forward({free_port()}, 1))\n"
    )
    with keyboard() as at:
        at.type(f"{sys.executable} {program}\n")
        at.expect("ended with 130")


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
