"""Paddock runs the commands that only root may run on the node, over a real ssh."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from levels import slow_proof
from live.node import Node
from live.node_root import on_node, root
from live.node_ssh import NodeShell, node_shell
from live.test_pet_and_cattle import Web

pytestmark = [pytest.mark.live, slow_proof]

HOST = "/mnt/pve/hdd/hive"


@pytest.fixture(scope="module")
def shell(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeShell]:
    with node_shell(node, tmp_path_factory.mktemp("person")) as found:
        yield found


class Hive(Web):
    """A service with a directory of the node and a feature, which no token can set."""

    def __init__(self, shell: NodeShell) -> None:
        super().__init__(shell.node, "hive")
        self.spec["mounts"] = [{"host": HOST, "path": "/data"}]
        self.spec["machine"]["features"] = ["nesting", "keyctl"]
        self.root = ("--set", f"places.box.proxmox.ssh.root={shell.destination}")

    def up(self, *, fails: bool = False) -> str:
        return self.paddock("up", "--no-wait", *self.root, fails=fails)


@pytest.fixture
def hive(shell: NodeShell) -> Iterator[Hive]:
    found = Hive(shell)
    try:
        yield found
    finally:
        found.remove()


def test_up_runs_root_commands_over_ssh(shell: NodeShell, hive: Hive) -> None:
    assert f"`up` does it as {shell.destination}" in hive.paddock("doctor", *hive.root)
    assert f"as {shell.destination}" in hive.paddock("plan", *hive.root)
    hive.up()
    config = root(shell.node, "pct", "config", hive.status()["machine"]).stdout.splitlines()
    assert f"mp1: {HOST},mp=/data" in config
    assert "features: keyctl=1,nesting=1" in config
    assert on_node(shell.node, HOST).stat().st_uid == 110000
    hive.paddock("exec", hive.name, "--", "sh", "-c", "echo mine > /data/probe")
    assert on_node(shell.node, f"{HOST}/probe").read_text() == "mine\n"
    assert "nothing to do" in hive.up()
    hive.paddock("cycle", "--no-wait", *hive.root)
    assert hive.paddock("exec", hive.name, "--", "cat", "/data/probe") == "mine\n"


def test_console_prints_commands_for_the_shell_of_the_node(shell: NodeShell, hive: Hive) -> None:
    hive.paddock("up", "--no-wait", fails=True)
    piped = shell.run(hive.paddock("console"))
    assert piped.returncode == 0, piped.stderr
    assert " 110000 110000 " in piped.stdout
    assert "up and working" in hive.paddock("up", "--no-wait")


def test_failed_ssh_logins_are_explained(shell: NodeShell, hive: Hive, tmp_path: Path) -> None:
    there = f"error: {shell.destination} cannot be reached over ssh at {shell.address}: "
    by_hand = "`paddock console` prints the commands to run there by hand"
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    with shell.another_host_key(stranger):
        told = hive.up(fails=True)
        assert f"{there}Host key verification failed." in told
        assert by_hand in told
    with shell.another_login(stranger):
        told = hive.up(fails=True)
        assert f"{there}root@{shell.address}: Permission denied" in told
        assert by_hand in told
    told = hive.paddock("up", "--no-wait", "--set", f"places.box.proxmox.ssh.root=root@{shell.address}:9", fails=True)
    assert "port 9: Connection refused" in told


def test_a_failed_root_command_is_named_and_up_resumes(shell: NodeShell, hive: Hive) -> None:
    path = "/mnt/pve/hdd/a-file"
    hive.spec["mounts"] = [{"host": path, "path": "/data"}]
    host = on_node(shell.node, path)
    host.parent.mkdir(parents=True, exist_ok=True)
    host.touch()
    assert f"error: `mkdir -p {path}` failed on {shell.destination}: mkdir: File exists" in hive.up(fails=True)
    host.unlink()
    # A backup locks the container between two commands: pct exits with 255, as ssh does without a connection.
    machine = hive.status()["machine"]
    try:
        with shell.instead_of("mountpoint", f"pct set {machine} -lock backup"):
            told = hive.up(fails=True)
    finally:
        root(shell.node, "pct", "unlock", machine)
    assert f"{path},mp=/data` failed on {shell.destination}: CT is locked (backup)" in told
    hive.up()
    assert host.stat().st_uid == 110000
