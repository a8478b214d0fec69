"""`adopt --from` copies an install that people made into an agent's state, and leaves the install as it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployed import import_image
from levels import slow_proof
from live.installs import UNIT, VENV, Install, install, start_unit
from live.manual import api_client, container, destroy, reboot
from live.node import Node, kill_at_step, wait_for
from live.node_root import root
from live.node_ssh import with_ssh
from live.test_native import ACCOUNT, SOMEONE
from paddock.channels.ssh import scan_host_key
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node.reading import address

pytestmark = pytest.mark.live

VMID = 270


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


class Target:
    """An agent of the node's file under another name, which receives the import."""

    def __init__(self, node: Node) -> None:
        self.node = node
        tree = node.file()
        tree["agents"] = {"moved": tree["agents"]["hermes"]}
        self.path = str(node.write("moved.yaml", tree))

    def paddock(self, verb: str, *words: str, fails: bool = False) -> str:
        done = self.node.paddock(verb, "-f", self.path, *words, fails=fails)
        return done.stderr + done.stdout

    def ask(self, prompt: str) -> str:
        return self.node.paddock("ask", "-f", self.path, "moved", prompt).stdout.strip()

    def remove(self) -> None:
        self.paddock("down")
        self.paddock("forget", "moved", "--name", "moved")


@pytest.fixture
def target(node: Node) -> Iterator[Target]:
    made = Target(node)
    yield made
    made.remove()


@pytest.fixture
def api(node: Node) -> Iterator[Client]:
    client = api_client(node)
    yield client
    client.close()


@pytest.fixture
def machine(node: Node, api: Client) -> Iterator[str]:
    """A container that Paddock's token may read, and nothing else."""
    found = container(node, api, VMID, memory=3072, rootfs="local-lvm:10")
    token = node.stage.environment["PVE_TOKEN"].partition("=")[0]
    accounts = ("--users", token.partition("!")[0], "--tokens", token)
    assert root(node, "pveum", "acl", "modify", f"/vms/{VMID}", *accounts, "--roles", "PVEAuditor").returncode == 0
    yield found
    destroy(api, VMID)


def after_reboot(api: Client, old: Install) -> Install:
    """Restart the machine of an install, and return the install at its new address."""
    reboot(api, VMID)
    where = address(api, VMID)
    assert where
    again = Install(replace(old.guest, address=where), old.folder)
    wait_for(lambda: again.shell("systemctl is-system-running --wait || true").strip() in ("running", "degraded"))
    return again


def test_the_install_in_a_container_becomes_an_agent(
    node: Node, api: Client, machine: str, target: Target, build: Path
) -> None:
    old = install(node, machine, "/root/.hermes", build)
    old.learn()
    start_unit(old)
    key = old.shell("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    words = ("moved", "--from", str(VMID), "--host-key", key)
    told = target.paddock("adopt", *words[:3], fails=True)
    assert f"pct exec {VMID} -- ssh-keygen" in told
    assert "add --host-key" in told
    shown = target.paddock("adopt", *words)
    assert "~ stop hermes.service, keep hermes.service from starting, and mark /root/.hermes on container 270" in shown
    assert "its .env sets OLD_SECRET, and the file gives moved no such variable" in shown
    assert old.shell("systemctl is-active hermes.service").strip() == "active"

    # Hermes writes files while it stops. From then on nothing in the folder changes.
    kill_at_step(node, "state.receive", "adopt", "-f", target.path, *words, "--yes")
    before = old.listing()
    told = target.paddock("adopt", *words, "--yes")
    print(shown, told)
    assert "moved: imported /root/.hermes from container 270, and works" in told
    assert old.listing() == before
    assert target.ask(QUESTION) == FACT

    # Neither a person nor a boot starts it again.
    assert "Assertion failed" in old.shell("systemctl start hermes.service 2>&1 || true")
    again = after_reboot(api, old)
    assert again.shell("systemctl is-active hermes.service || true").strip() == "inactive"
    assert again.listing() == before
    refused = target.paddock("adopt", *words, "--yes", fails=True)
    assert "the agent has a state already, which was imported from /root/.hermes on container 270" in refused
    # The secrets of the install are neither used nor lost.
    kept = target.paddock("exec", "moved", "--", "sh", "-c", "cat ~/.hermes/.env.found-*")
    assert "OLD_SECRET=from-the-old-install" in kept


@slow_proof
def test_an_install_of_an_account_on_a_host_becomes_an_agent(
    node: Node, machine: str, target: Target, build: Path, tmp_path: Path
) -> None:
    node.shell(machine, ACCOUNT)
    old = install(node, machine, "/home/someone/.hermes", build, "someone")
    old.learn("someone")
    own = ".config/systemd/user"
    old.shell(
        f"cd ~someone && {SOMEONE} mkdir -p {own} && {SOMEONE} tee {own}/hermes-gateway.service", stdin=UNIT.encode()
    )
    old.shell(f"{SOMEONE} systemctl --user daemon-reload && {SOMEONE} systemctl --user enable --now hermes-gateway")
    wait_for(lambda: "running" in old.shell(f"cat {old.folder}/gateway_state.json 2>/dev/null || true"))
    target.node = with_ssh(node, tmp_path)
    (tmp_path / "known_hosts").write_text(f"{machine} {scan_host_key(machine)}\n")
    words = ("moved", "--from", f"someone@{machine}")
    shown = target.paddock("adopt", *words)
    assert f"mark /home/someone/.hermes on someone@{machine} as imported" in shown
    assert f"only processes and units of the account someone could be seen on someone@{machine}" in shown
    kill_at_step(target.node, "state.receive", "adopt", "-f", target.path, *words, "--yes")
    before = old.listing()
    assert "and works" in target.paddock("adopt", *words, "--yes")
    assert old.listing() == before
    assert target.ask(QUESTION) == FACT
    assert "Assertion failed" in old.shell(f"{SOMEONE} systemctl --user start hermes-gateway 2>&1 || true")
    assert old.shell("find /etc/systemd /run -name '*paddock*'") == "", "everything belongs to the account"


@slow_proof
def test_an_install_in_docker_becomes_an_agent(
    node: Node, api: Client, machine: str, target: Target, build: Path
) -> None:
    """As in the seed: an LXC container with Docker, and the data in /opt/hermes."""
    old = install(node, machine, "/opt/hermes", build)
    old.learn()
    old.shell("apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io >/dev/null 2>&1")
    import_image(old.guest, "docker")
    run = f"docker run --detach --name hermes --restart always --volume /opt/hermes:/opt/data --volume {VENV}:{VENV}"
    old.shell(f"{run} --env HERMES_HOME=/opt/data --network host debian:12 {VENV}/bin/hermes gateway run")
    wait_for(lambda: "running" in old.shell(f"cat {old.folder}/gateway_state.json 2>/dev/null || true"), 60)
    key = old.shell("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    words = ("moved", "--from", str(VMID), "--host-key", key)
    assert "~ stop hermes, keep hermes from starting, and mark /opt/hermes" in target.paddock("adopt", *words)
    kill_at_step(node, "state.receive", "adopt", "-f", target.path, *words, "--yes")
    before = old.listing()
    assert "and works" in target.paddock("adopt", *words, "--yes")
    assert old.listing() == before
    assert target.ask(QUESTION) == FACT
    again = after_reboot(api, old)
    assert again.shell("docker inspect --format '{{.State.Running}}' hermes").strip() == "false"


@slow_proof
def test_a_backup_of_hermes_and_a_copied_folder_become_an_agent(
    node: Node, machine: str, target: Target, build: Path, tmp_path: Path
) -> None:
    old = install(node, machine, "/root/.hermes", build)
    old.learn()
    old.shell(f"{VENV}/bin/hermes backup -o /root/backup.zip")
    (tmp_path / "copy").mkdir()
    fetched = {"backup.zip": "cat /root/backup.zip", "copy.tar": "tar -C /root/.hermes -c ."}
    for name, command in fetched.items():
        with old.guest.piped(["sh", "-c", command]) as pipes:
            pipes.sink.close()
            (tmp_path / name).write_bytes(pipes.source.read())
    subprocess.run(["tar", "-xf", str(tmp_path / "copy.tar"), "-C", str(tmp_path / "copy")], check=True)
    for name in ("backup.zip", "copy"):
        told = target.paddock("adopt", "moved", "--from", str(tmp_path / name), "--yes")
        assert f"moved: imported {tmp_path / name} from this machine, and works" in told
        assert target.ask(QUESTION) == FACT
        target.remove()
