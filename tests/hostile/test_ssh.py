"""A machine gets nothing of the user's ssh configuration, and its host key is not trusted without a record."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hostile.keyboard import keyboard
from paddock.base.errors import Exit, PaddockError
from paddock.base.process import DeadlinePassed
from paddock.channels.ssh import SshGuest
from paddock.core.converge import up
from paddock.places.proxmox.machine.reach import fingerprint
from paddock.plan.step import AdoptTarget
from paddock.verbs.adopt import adopt, describe
from places.node import Node
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
            f"from pathlib import Path, PosixPath\nfrom paddock.channels.ssh import SshGuest\n"
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
        "import signal\nfrom pathlib import Path, PosixPath\nfrom paddock.base import process\n"
        "from paddock.channels.ssh import SshGuest\n"
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


# --- the host key of an adopted machine


IMPOSTOR = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
TARGET = AdoptTarget(105)


@pytest.fixture
def node(node: Node) -> Node:
    """Create a running container with a volume, at whose address another machine's host key answers."""
    node.somebody(999, pool="paddock-state", hostname="storage", mp0="local-lvm:10,mp=/home/bee", protection=1)
    volume = "local-lvm:vm-999-disk-1,mp=/home/bee"
    node.somebody(105, pool="paddock", hostname="bee", net0="name=eth0,bridge=vmbr0,ip=dhcp", mp0=volume)
    node.root("pct", "start", 105)
    node.machines.host_keys[105] = IMPOSTOR
    return node


def adopted(node: Node) -> tuple[str, PaddockError | None]:
    """Run `adopt` and return the container's notes afterwards, and the error."""
    keys: dict[str, Any] = dict(describe(node.agent(), TARGET).said)
    try:
        adopt(node.agent(**keys), TARGET)
    except PaddockError as error:
        return str(node.config(105).get("description", "")), error
    return str(node.config(105).get("description", "")), None


def test_adopt_does_not_record_a_host_key_that_the_user_has_not_confirmed(node: Node) -> None:
    notes, ended = adopted(node)
    assert IMPOSTOR not in notes, "adopt trusted the first ssh host key that answered, and would send secrets there"
    assert ended is not None
    assert ended.exit_code is Exit.NEEDS_PERSON


def test_adopt_shows_the_fingerprint_and_the_command_that_prints_the_real_one(node: Node) -> None:
    notes, ended = adopted(node)
    assert ended is not None, f"adopt accepted the key {fingerprint(IMPOSTOR)} without asking: {notes}"
    text = f"{ended.message}\n{ended.hint}"
    assert fingerprint(IMPOSTOR) in text
    assert "pct exec 105 -- ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub" in text
    assert f"--set agents.bee.machine.host_key={fingerprint(IMPOSTOR)}" in text
    assert "is gone" not in text


def test_adopt_changes_nothing_before_the_host_key_is_confirmed(node: Node) -> None:
    before = {vmid: node.config(vmid) for vmid in node.vmids}
    adopted(node)
    changed = {vmid for vmid in node.vmids if node.config(vmid) != before.get(vmid)}
    assert not changed, f"adopt changed containers {changed} before their host key was confirmed"


def test_up_does_not_trust_a_host_key_that_adopt_did_not_record(node: Node) -> None:
    """A killed `adopt` leaves a mark without a host key."""
    keys: dict[str, Any] = dict(describe(node.agent(), TARGET).said)
    node.put(999, description="paddock: v=2 role=pet adopted=home_bee", hostname="storage")
    node.put(999, mp0="local-lvm:vm-999-disk-1,mp=/var/lib/paddock/home_bee,size=10G")
    node.put(105, description="paddock: v=2 role=cattle agent=home_bee")
    try:
        text = up(node.agent(**keys))
    except PaddockError as error:
        text = f"{error.message}\n{error.hint}"
    assert IMPOSTOR not in node.config(105)["description"], "up trusted the first ssh host key that answered"
    assert fingerprint(IMPOSTOR) in text
